# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=336 k=136
# data: data=9 values=normal layout=285368 seed=10
# schedule: turned pingpong 128x48x3 sub 16x2 aux 1 raster 2
# schedule: turned cooperative 256x64x2 sub 64x2 aux 1 raster 2
# schedule: turned pingpong 128x88x2 sub 32x2 aux 1 raster 1 split 2 by memory
def epilogue(acc, cos: tile[bf16], sin: tile[f32], weight: row[bf16]):
    a, b = chunk(acc * weight, 2, group=2)
    D: bf16 = concat((a * cos - b * sin, b * cos + a * sin), group=2)
    return D
