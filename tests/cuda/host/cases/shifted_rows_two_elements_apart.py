# problem: kind=gemm a=f16 b=f16 batched=1
# shape: batch=3 m=20 n=264 k=271
# data: data=9 values=normal layout=11886 seed=11
# schedule: pingpong 64x64x4 sub 32x2 aux 2 raster 1 shifted
# schedule: pingpong 64x128x2 sub 64x2 aux 1 raster 2 split 2 by memory at end shifted
# schedule: pingpong 64x64x3 sub 64x2 aux 2 raster 2 split 3 by memory shifted
# schedule: cooperative 128x192x2 sub 32x2 aux 2 raster 1 shifted
# schedule: cooperative 256x128x2 sub 32x2 aux 1 raster 2 split 2 by memory shifted
def epilogue(acc, res: tile):
    D: f16 = acc + res
    return D
