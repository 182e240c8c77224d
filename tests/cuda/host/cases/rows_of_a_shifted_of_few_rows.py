# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=3 n=264 k=277
# data: data=9 values=special layout=0 seed=34
# schedule: pingpong 64x64x7 sub 32x2 aux 0 raster 1 A shifted
# schedule: pingpong 64x128x3 sub 32x2 aux 0 raster 1 split 2 by memory A shifted
def epilogue(acc):
    D: f32 = acc
    t: f32 = sum(acc, axis=1)
    return D, t
