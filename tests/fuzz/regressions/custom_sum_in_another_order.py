# problem: kind=gemm a=f32 b=f32 batched=0
# shape: batch=1 m=7 n=3 k=0
# data: data=14523519640921172087 values=integers layout=0 seed=3007343
def epilogue(acc):
    v0, _ = reduce((random(10467266229331241419, stream=2), 1.0), combine=lambda p0, p1, p2, p3: (p0 + p2, max(p1, p3)), identity=(0.0, -inf), axis=1)
    y2: f32 = v0
    return y2
