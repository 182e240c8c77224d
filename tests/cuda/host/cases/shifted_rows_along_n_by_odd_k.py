# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=13 n=133 k=401
# data: data=9 values=normal layout=0 seed=17
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 1 shifted
# schedule: pingpong 64x128x2 sub 32x2 aux 0 raster 1 split 2 by memory shifted
def epilogue(acc, res: tile):
    x = acc + res
    d: bf16 = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 1e-5)
    return d
