# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=200 n=300 k=136
# data: data=16 values=normal layout=0 seed=52
# schedule: pingpong 64x96x3 sub 32x2 aux 0 raster 1 parks
# schedule: pingpong 128x64x3 sub 64x2 aux 0 raster 1 parks
# schedule: pingpong 64x256x2 sub 32x2 aux 0 raster 2 parks
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 1 parks looped
# schedule: pingpong 64x192x2 sub 64x2 aux 0 raster 3 parks
# schedule: pingpong 128x160x2 sub 32x2 aux 0 raster 3 parks looped
def epilogue(acc):
    e = exp(acc - max(acc, axis=1))
    D: bf16 = e / sum(e, axis=1)
    return D
