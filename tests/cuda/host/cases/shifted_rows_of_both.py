# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=13 n=136 k=407
# data: data=9 values=normal layout=11886 seed=15
# schedule: pingpong 64x64x4 sub 32x2 aux 1 raster 1 A and B shifted
# schedule: pingpong 64x128x2 sub 32x2 aux 1 raster 1 split 2 by memory A and B shifted
def epilogue(acc, res: tile):
    x = acc + res
    d: bf16 = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 1e-5)
    return d
