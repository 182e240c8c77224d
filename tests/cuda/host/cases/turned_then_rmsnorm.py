# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=200 k=72
# data: data=9 values=normal layout=826673 seed=10
# schedule: turned pingpong 64x48x3 sub 16x2 aux 0 raster 2
# schedule: turned cooperative 128x80x2 sub 16x2 aux 0 raster 2
# schedule: turned pingpong 64x64x2 sub 64x2 aux 0 raster 2 cluster 2x1
# schedule: turned pingpong 64x64x2 sub 16x2 aux 0 raster 2 cluster 1x2
def epilogue(acc, g: row[f32]):
    x = silu(acc)
    D: f32 = x * rsqrt(mean(x * x, axis=1) + 0.00001) * g
    return D
