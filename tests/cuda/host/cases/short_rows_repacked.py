# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=1100 n=40 k=3
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc):
    d: bf16 = acc
    return d
