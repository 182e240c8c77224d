# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=300 n=120 k=520
# data: data=9 values=normal layout=0 seed=326
# schedule: pingpong 64x64x4 sub 32x2 aux 2 raster 2 split 2 by memory at end
# schedule: pingpong 64x64x4 sub 64x2 aux 1 raster 1 split 2 by memory at end looped
# schedule: pingpong 64x64x3 sub 32x2 aux 1 raster 2 cluster 1x2 split 2 by memory at end
# schedule: cooperative 128x64x4 sub 32x2 aux 2 raster 2 split 2 by memory at end
# schedule: cooperative 128x64x4 sub 64x2 aux 1 raster 1 split 2 by memory at end looped
def epilogue(acc, residual: tile[bf16], gamma: row[f32]):
    x = acc + residual
    s: f32 = var(x, axis=1)
    D: bf16 = (x - mean(x, axis=1)) * rsqrt(s + 1e-5) * gamma
    return D, s
