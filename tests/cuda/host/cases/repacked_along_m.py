# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=140 n=201 k=139
# data: data=9 values=normal layout=3777 seed=10
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 2
# schedule: cooperative 128x128x4 sub 32x2 aux 0 raster 2
# schedule: pingpong 64x96x4 sub 32x2 aux 0 raster 2
# schedule: mma 64x64x3 sub 32x1 aux 0 raster 2
def epilogue(acc):
    d: bf16 = acc
    return d
