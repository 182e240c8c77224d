# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=136 k=203
# data: data=9 values=special layout=2 seed=36
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 1 A and B shifted
# schedule: pingpong 64x128x2 sub 32x2 aux 0 raster 2 split 2 A and B shifted
def epilogue(acc):
    D: f32 = acc
    return D
