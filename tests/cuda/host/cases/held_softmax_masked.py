# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=130 n=200 k=64
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, mask: tile[bool]):
    x = cast(where(mask, acc, -inf), bf16)
    e = exp(x - max(x, axis=1))
    D: bf16 = e / sum(e, axis=1)
    return D
