# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=10 n=330 k=1100
# data: data=16 values=normal layout=0 seed=41
# schedule: pingpong 64x64x6 sub 32x2 aux 0 raster 2 cluster 1x2
# schedule: pingpong 64x96x6 sub 32x2 aux 0 raster 1 cluster 1x2 split 4 by memory
def epilogue(acc):
    D: bf16 = relu(acc)
    return D
