# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=325 k=149
# data: data=9 values=normal layout=0 seed=22
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 2 shifted
# schedule: pingpong 64x128x2 sub 32x2 aux 0 raster 12 split 2 by memory shifted
# schedule: cooperative 256x128x2 sub 32x2 aux 0 raster 2 shifted
# schedule: cooperative 128x128x3 sub 32x2 aux 0 raster 12 split 2 by memory shifted
# schedule: cooperative 128x64x2 sub 32x2 aux 0 raster 1 shifted
def epilogue(acc, res: tile):
    x = acc + res
    D: bf16 = x
    c: f32 = sum(x, axis=0)
    return D, c
