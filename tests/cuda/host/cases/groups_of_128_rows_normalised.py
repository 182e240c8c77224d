# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=300 n=136 k=40
# data: data=10 values=normal layout=0 seed=32
# schedule: pingpong 128x64x4 sub 64x2 aux 2 raster 2
# schedule: pingpong 128x192x4 sub 32x2 aux 1 raster 2
# schedule: cooperative 256x128x3 sub 32x2 aux 2 raster 2
# schedule: cooperative 128x128x3 sub 64x2 aux 2 raster 2
# schedule: cooperative 128x256x3 sub 32x2 aux 1 raster 2
# schedule: mma 256x64x3 sub 32x1 aux 1 raster 2
def epilogue(acc, residual: tile[bf16], gain: col[f32]):
    x = acc + residual
    m: f32 = mean(x, axis=0, group=128)
    v = var(x, axis=0, group=128)
    D: bf16 = (x - repeat(m, 128, axis=0)) * repeat(rsqrt(v + 1e-5), 128, axis=0) * gain
    return D, m
