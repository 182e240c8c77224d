# problem: kind=gemm a=f16 b=f16 batched=1
# shape: batch=3 m=20 n=262 k=272
# data: data=9 values=normal layout=0 seed=18
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 1 shifted
# schedule: pingpong 64x128x2 sub 64x2 aux 0 raster 2 split 2 by memory at end shifted
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 2 split 3 by memory shifted
# schedule: cooperative 128x192x2 sub 32x2 aux 0 raster 1 shifted
def epilogue(acc, res: tile):
    D: f16 = acc + res
    return D
