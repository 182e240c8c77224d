# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=261 n=264 k=72
# data: data=9 values=normal layout=2999 seed=10
# schedule: cooperative 128x64x3 sub 32x2 aux 0 raster 1
# schedule: pingpong 64x64x3 sub 32x3 aux 0 raster 1
def epilogue(acc):
    z: bf16 = acc + 1
    y: bf16 = acc * rsqrt(mean(acc * acc, axis=1))
    return z, y
