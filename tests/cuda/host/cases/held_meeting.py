# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=200 n=330 k=136
# data: data=16 values=normal layout=0 seed=41
# schedule: pingpong 64x192x3 sub 32x2 aux 0 raster 2 cluster 1x2 meets
# schedule: cooperative 128x128x3 sub 32x2 aux 0 raster 1 cluster 1x3 meets
# schedule: pingpong 128x96x3 sub 32x2 aux 0 raster 3 cluster 1x4 meets
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 8 cluster 1x6 meets
# schedule: cooperative 256x128x2 sub 32x2 aux 0 raster 8 cluster 1x3 meets
def epilogue(acc):
    e = exp(acc - max(acc, axis=1))
    D: bf16 = e / sum(e, axis=1)
    return D
