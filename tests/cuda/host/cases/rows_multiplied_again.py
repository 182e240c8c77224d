# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=203 n=416 k=72
# data: data=5 values=normal layout=0 seed=32
# schedule: pingpong 64x64x4 sub 32x2 aux 2 raster 2 again
# schedule: pingpong 64x64x3 sub 32x2 aux 1 raster 1 again looped
# schedule: pingpong 128x64x4 sub 32x2 aux 2 raster 2 again
# schedule: cooperative 128x64x4 sub 64x2 aux 2 raster 1 again
# schedule: cooperative 128x64x4 sub 64x2 aux 2 raster 1 again looped
# schedule: pingpong 64x64x4 sub 64x2 aux 2 raster 2 cluster 2x1 again
# schedule: pingpong 64x64x3 sub 32x2 aux 2 raster 3 cluster 1x2 again
def epilogue(acc, residual: tile[bf16], gamma: row[f32], keep: tile[bool]):
    x = where(keep, acc + residual, residual)
    D: bf16 = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 0.001) * gamma
    return D
