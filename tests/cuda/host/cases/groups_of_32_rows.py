# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=296 k=72
# data: data=9 values=normal layout=0 seed=31
# schedule: pingpong 64x64x4 sub 64x2 aux 0 raster 2
# schedule: pingpong 128x128x4 sub 32x2 aux 0 raster 2 split 2 by memory
# schedule: cooperative 256x128x3 sub 64x2 aux 0 raster 2
# schedule: pingpong 128x128x4 sub 32x2 aux 0 raster 2 looped
# schedule: cooperative 128x256x3 sub 64x2 aux 0 raster 2
# schedule: mma 256x128x3 sub 64x1 aux 0 raster 2
# schedule: mma 64x64x3 sub 32x1 aux 0 raster 2
def epilogue(acc, bias: row[bf16]):
    y = silu(acc + bias)
    scale: f32 = max(max(abs(y), axis=0, group=32), 1e-6) / 448.0
    D: e4m3 = y / repeat(scale, 32, axis=0)
    return D, scale
