# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=200 n=328 k=136
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 128x128x3 sub 32x2 aux 2 raster 1 looped
# schedule: cooperative 256x128x3 sub 64x2 aux 2 raster 1 looped
# schedule: pingpong 64x192x3 sub 64x2 aux 2 raster 2 looped
# schedule: mma 128x128x3 sub 32x1 aux 1 raster 1 looped
def epilogue(acc, bias: row[f32], residual: tile[bf16], scale: col[f32]):
    x = tanh(acc + bias) * scale
    y0: bf16 = tanh(x - 0.5) + residual
    y1: f32 = sum(x, axis=0)
    y2: f32 = max(x, axis=1)
    y3: f32 = sum(x * x)
    return y0, y1, y2, y3
