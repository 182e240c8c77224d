# problem: kind=gemm a=f16 b=f16 batched=1
# shape: batch=2 m=77 n=384 k=72
# data: data=9 values=normal layout=680156 seed=10
# schedule: turned pingpong 128x48x3 sub 16x2 aux 1 raster 2
# schedule: turned cooperative 256x64x2 sub 64x2 aux 1 raster 2
# schedule: turned pingpong 128x88x2 sub 32x2 aux 1 raster 1 split 2 by memory
def epilogue(acc, cos: tile[f32], sin: tile[f16]):
    a, b = chunk(acc, 2, group=128)
    D: f16 = concat((a * cos - b * sin, b * cos + a * sin), group=128)
    return D
