# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=203 n=424 k=264
# data: data=16 values=normal layout=1044475 seed=43
# schedule: pingpong 64x64x4 sub 32x2 aux 2 raster 1
# schedule: pingpong 128x192x3 sub 32x2 aux 2 raster 1
# schedule: pingpong 64x64x4 sub 32x2 aux 4 raster 1 cluster 1x2
# schedule: pingpong 192x128x3 sub 32x2 aux 2 raster 2 cluster 2x1
# schedule: turned pingpong 64x64x4 sub 32x2 aux 2 raster 2
# Rows of seven or eight tiles, or of two turns, on five multiprocessors: a tile waits for one that the other consumer
# of its own block has next.
def epilogue(acc, r: tile[bf16]):
    x = acc + r
    D: bf16 = x * rsqrt(mean(x * x, axis=1) + 1e-6)
    return D
