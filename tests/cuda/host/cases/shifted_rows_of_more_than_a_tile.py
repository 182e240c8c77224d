# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=328 k=149
# data: data=9 values=normal layout=11886 seed=21
# schedule: pingpong 64x64x3 sub 32x2 aux 1 raster 2 shifted
# schedule: pingpong 64x128x2 sub 32x2 aux 1 raster 12 split 2 by memory at end shifted
# schedule: cooperative 128x64x4 sub 32x2 aux 1 raster 2 shifted
# schedule: cooperative 128x192x3 sub 32x2 aux 1 raster 12 split 2 by memory shifted
# schedule: cooperative 128x64x2 sub 32x2 aux 1 raster 1 shifted
def epilogue(acc, res: tile):
    x = acc + res
    D: bf16 = x
    c: f32 = sum(x, axis=0)
    return D, c
