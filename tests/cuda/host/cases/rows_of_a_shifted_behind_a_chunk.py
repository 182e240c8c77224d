# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=29 n=256 k=203
# data: data=9 values=special layout=0 seed=31
# schedule: pingpong 64x128x3 sub 32x2 aux 0 raster 1 A shifted
# schedule: cooperative 128x128x2 sub 32x2 aux 0 raster 1 A shifted
def epilogue(acc):
    x, y = chunk(acc, 2)
    D: f32 = x * y
    return D
