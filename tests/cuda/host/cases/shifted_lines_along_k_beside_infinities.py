# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=20 n=131 k=94
# data: data=9 values=special layout=11886 seed=24
# schedule: cooperative 128x64x2 sub 32x2 aux 0 raster 1 shifted
# schedule: cooperative 128x128x2 sub 32x2 aux 0 raster 1 shifted
def epilogue(acc):
    D: f32 = acc
    return D
