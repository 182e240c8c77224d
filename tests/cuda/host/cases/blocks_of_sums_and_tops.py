# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=150 n=200 k=40
# data: data=15 values=normal layout=0 seed=37
# schedule: pingpong 64x64x4 sub 64x2 aux 1 raster 2
# schedule: pingpong 128x192x4 sub 32x2 aux 1 raster 2
# schedule: cooperative 128x256x3 sub 64x2 aux 2 raster 2
# schedule: mma 256x128x3 sub 64x1 aux 1 raster 2
def epilogue(acc, residual: tile[bf16], factor: tile[f32]):
    y = acc + residual
    inner: f32 = sum(y * y, axis=1, group=64)
    total: f32 = sum(inner, axis=0, group=32)
    top = max(inner * 2.0, axis=0, group=32)
    D: bf16 = y * repeat(repeat(rsqrt(total + 1.0) * factor, 64), 32, axis=0) + repeat(repeat(top, 32, axis=0), 64)
    return D, inner, total
