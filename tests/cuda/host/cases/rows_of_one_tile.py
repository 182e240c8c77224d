# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=185 n=120 k=520
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x128x3 sub 32x2 aux 2 raster 2
# schedule: pingpong 128x128x3 sub 32x2 aux 2 raster 2 looped
# schedule: pingpong 192x128x2 sub 32x2 aux 1 raster 2 cluster 2x1
# schedule: cooperative 128x128x3 sub 64x2 aux 2 raster 4
# schedule: pingpong 192x128x3 sub 32x2 aux 1 raster 2 split 2
# schedule: pingpong 64x128x3 sub 32x2 aux 2 raster 2 split 3 by memory
# schedule: pingpong 64x128x3 sub 32x2 aux 2 raster 2 split 2 by memory at end
def epilogue(acc, bias: row[f32], residual: tile[bf16], gamma: row[bf16]):
    h: bf16 = acc + bias + residual
    x = cast(h, f32)
    s: f32 = var(x, axis=1)
    y = (x - mean(x, axis=1)) * rsqrt(s + 1e-5) * gamma
    D: bf16 = y
    return h, s, D
