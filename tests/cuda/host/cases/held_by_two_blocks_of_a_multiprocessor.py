# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=200 n=330 k=136
# data: data=16 values=normal layout=0 seed=41
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 1 occupancy 2
# schedule: pingpong 64x96x3 sub 32x2 aux 0 raster 2 occupancy 2
def epilogue(acc):
    e = exp(acc - max(acc, axis=1))
    D: bf16 = e / sum(e, axis=1)
    return D
