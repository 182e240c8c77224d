# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=200 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, c: col[f32]):
    e = exp((acc - max(acc, axis=0)) * 2)
    s: f32 = sum(e, axis=0)
    w: f32 = sum(e * c, axis=0)
    return s, w
