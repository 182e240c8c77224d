# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=200 n=768 k=136
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 128x128x3 sub 32x2 aux 2 raster 1 looped
# schedule: pingpong 64x192x3 sub 32x2 aux 2 raster 2 looped
# schedule: mma 128x128x3 sub 32x1 aux 1 raster 1 looped
def epilogue(acc, residual: tile[bf16]):
    x = acc * repeat(rsqrt(mean(acc * acc, axis=1, group=64) + 1e-5), 64)
    a, b = chunk(x, 2, group=64)
    c, d = chunk(residual, 2, group=64)
    D: bf16 = concat((tanh(a) + c, tanh(b) * d), group=64)
    return D
