# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=60 n=60 k=200
# data: data=16 values=normal layout=3 seed=41
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 2 cluster 2x1
# schedule: cooperative 128x64x4 sub 32x2 aux 0 raster 2 cluster 1x2
def epilogue(acc):
    D: bf16 = acc
    total: f32 = sum(D * D)
    return D, total
