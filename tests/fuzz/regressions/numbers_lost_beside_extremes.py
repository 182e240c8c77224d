# problem: kind=gemm a=f32 b=f32 batched=0
# shape: batch=1 m=64 n=64 k=0
# data: data=179932344212762842 values=special layout=0 seed=103114236
def epilogue(acc, x2: tile[f32]):
    _, v0 = reduce((acc, x2), combine=lambda p0, p1, p2, p3: (min(p0, p2), p1 + p3), identity=(inf, 0.0), axis=1)
    y0: f32 = v0
    return y0
