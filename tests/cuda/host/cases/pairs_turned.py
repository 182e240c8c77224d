# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=70 n=544 k=72
# data: data=13 values=normal layout=0 seed=19
# schedule: pingpong 64x128x3 sub 32x2 aux 2 raster 1
# schedule: cooperative 128x256x3 sub 32x2 aux 1 raster 1
# schedule: mma 64x128x3 sub 32x1 aux 1 raster 1
def epilogue(acc, bias: row[f32], cos: tile[bf16], sin: tile[bf16]):
    even, odd = chunk(acc + bias, 2, group=2)
    x = even * cos - odd * sin
    y = odd * cos + even * sin
    y0: bf16 = concat((x, y), group=2)
    y1: f32 = concat((y, x), group=2)
    y2: f32 = max(x, axis=1)
    y3: f32 = mean(y, axis=0)
    y4: e4m3 = concat((x, y), group=2)
    return y0, y1, y2, y3, y4
