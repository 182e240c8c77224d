# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=64 n=200 k=149
# data: data=9 values=normal layout=11886 seed=12
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 1 shifted
# schedule: pingpong 64x128x2 sub 32x2 aux 0 raster 1 shifted
# schedule: cooperative 128x128x3 sub 32x2 aux 0 raster 1 shifted
def epilogue(acc):
    e = exp(acc - max(acc, axis=1))
    D: bf16 = e / sum(e, axis=1)
    return D
