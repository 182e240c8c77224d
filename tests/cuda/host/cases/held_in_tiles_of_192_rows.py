# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=1 m=200 n=250 k=72
# data: data=12 values=normal layout=0 seed=1
# schedule: pingpong 192x128x4 sub 32x2 aux 0 raster 1
# schedule: pingpong 192x96x4 sub 32x2 aux 0 raster 1
# schedule: cooperative 128x224x3 sub 32x2 aux 0 raster 1
def epilogue(acc, gamma: row[f32], beta: row[bf16]):
    x = cast(acc, bf16)
    y = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 0.00001)
    D: bf16 = y * gamma + beta
    return D
