# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=261 n=264 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: cooperative 128x64x3 sub 32x2 aux 1 raster 2
# schedule: cooperative 128x192x2 sub 64x2 aux 2 raster 1
# schedule: pingpong 64x64x2 sub 64x3 aux 1 raster 3
def epilogue(acc, z: tile[bf16], r: row[f32]):
    x = acc * r + z
    y0: bf16 = x
    y1: f32 = x - z
    y2: f32 = max(x, axis=0)
    y3: f32 = sum(x, axis=0)
    y4: f32 = max(x, axis=1)
    y5: f32 = sum(x * z)
    return y0, y1, y2, y3, y4, y5
