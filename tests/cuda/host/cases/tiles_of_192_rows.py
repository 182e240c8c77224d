# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=1 m=330 n=200 k=200
# data: data=12 values=normal layout=0 seed=1
# schedule: pingpong 192x128x4 sub 32x2 aux 2 raster 12
# schedule: pingpong 192x64x4 sub 32x2 aux 4 raster 2 cluster 2x1
# schedule: pingpong 192x64x4 sub 32x2 aux 2 raster 12 split 3 by memory
def epilogue(acc, residual: tile[bf16], bias: row[f32], scale: col[f32]):
    x = hardswish(acc * scale + bias) / 3 + residual
    D: bf16 = x
    most: f32 = max(abs(x), axis=0)
    total: f32 = sum(x, axis=1)
    return D, most, total
