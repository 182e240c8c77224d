# problem: kind=gemm a=e4m3 b=e4m3 batched=0
# shape: batch=1 m=330 n=200 k=656
# data: data=16 values=normal layout=0 seed=41
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 2 cluster 2x1
# schedule: cooperative 128x128x3 sub 32x2 aux 0 raster 1 cluster 1x2
def epilogue(acc):
    D: bf16 = relu(acc)
    return D
