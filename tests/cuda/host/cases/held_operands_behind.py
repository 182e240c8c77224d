# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=264 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, a: tile[bf16], b: tile[f16]):
    x: bf16 = acc * a
    D: f16 = x / (1 + max(abs(x), axis=1)) + b * sum(x, axis=1)
    return x, D
