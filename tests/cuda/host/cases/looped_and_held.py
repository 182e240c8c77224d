# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=200 n=328 k=136
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 128x128x3 sub 32x2 aux 2 raster 1 looped
# schedule: pingpong 64x192x3 sub 64x2 aux 2 raster 2 looped
# schedule: cooperative 128x256x3 sub 32x2 aux 2 raster 1 looped
def epilogue(acc, bias: row[f32], residual: tile[bf16]):
    x = tanh(acc + bias) + residual
    y = x - mean(x, axis=1)
    D: bf16 = y * rsqrt(mean(y * y, axis=1) + 1e-5)
    return D
