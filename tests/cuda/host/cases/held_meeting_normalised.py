# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=777 n=456 k=200
# data: data=9 values=normal layout=0 seed=12
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 8 cluster 1x8 meets
# schedule: pingpong 128x128x3 sub 64x2 aux 0 raster 8 cluster 1x4 meets
# schedule: cooperative 128x64x3 sub 32x2 aux 0 raster 2 cluster 1x8 meets
# schedule: cooperative 256x128x2 sub 32x2 aux 0 raster 2 cluster 1x4 meets looped
def epilogue(acc, gamma: row[f32], beta: row[bf16]):
    x = cast(acc, bf16)
    y = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 1e-5)
    D: bf16 = y * gamma + beta
    return D
