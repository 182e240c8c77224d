# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=1024 k=40
# data: data=13 values=normal layout=0 seed=14
# schedule: pingpong 64x256x3 sub 32x2 aux 0 raster 1
# schedule: mma 64x256x3 sub 32x1 aux 0 raster 1
def epilogue(acc):
    a, b, c, d = chunk(acc, 4, group=256)
    D: bf16 = concat((a * c - b * d, a * d + b * c), group=128)
    m: f32 = max(a + d, axis=1)
    return D, m
