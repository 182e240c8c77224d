# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=136 k=330
# data: data=9 values=special layout=0 seed=32
# schedule: pingpong 64x64x3 sub 32x2 aux 1 raster 1 A shifted
# schedule: cooperative 128x64x3 sub 32x2 aux 1 raster 1 split 2 A shifted
# schedule: cooperative 256x128x2 sub 32x2 aux 1 raster 1 split 3 by memory A shifted
# schedule: pingpong 128x64x2 sub 32x2 aux 1 raster 2 cluster 2x1 A shifted
# schedule: pingpong 192x64x2 sub 32x2 aux 1 raster 1 split 2 by memory A shifted
def epilogue(acc, res: tile):
    D: f32 = acc + res
    return D
