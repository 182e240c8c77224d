# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=768 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x192x3 sub 32x2 aux 0 raster 1
# schedule: pingpong 64x128x3 sub 32x2 aux 0 raster 1
# schedule: mma 64x64x3 sub 32x1 aux 0 raster 1
def epilogue(acc):
    a, b = chunk(acc, 2, group=96)
    y: bf16 = where(random(seed=3) < 0.5, a, b)
    return y
