# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=5 n=331 k=408
# data: data=9 values=normal layout=0 seed=16
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 1 shifted
# schedule: pingpong 64x128x3 sub 64x2 aux 0 raster 2 split 2 by memory shifted
# schedule: pingpong 64x64x4 sub 64x2 aux 0 raster 1 split 2 shifted looped
# schedule: cooperative 128x128x3 sub 64x2 aux 0 raster 1 split 2 shifted
# schedule: cooperative 128x64x4 sub 32x2 aux 0 raster 1 split 3 by memory shifted
def epilogue(acc, bias: row):
    D: bf16 = relu(acc + bias)
    return D
