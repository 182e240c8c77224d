# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=3 m=21 n=72 k=147
# data: data=9 values=normal layout=0 seed=33
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 1 A shifted
# schedule: pingpong 128x64x2 sub 32x2 aux 0 raster 1 A shifted
# schedule: cooperative 128x64x3 sub 32x2 aux 0 raster 1 A shifted
def epilogue(acc, weight: row):
    d: bf16 = acc * rsqrt(mean(acc * acc, axis=1) + 1e-5) * weight
    return d
