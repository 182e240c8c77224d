# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=70 n=500 k=72
# data: data=9 values=normal layout=0 seed=12
# schedule: pingpong 64x64x4 sub 64x2 aux 0 raster 8 cluster 1x8 meets
# schedule: cooperative 128x64x4 sub 32x2 aux 0 raster 8 cluster 1x8 meets
# schedule: pingpong 64x128x4 sub 32x2 aux 0 raster 8 cluster 1x4 meets
def epilogue(acc):
    s: f32 = max(abs(acc), axis=1)
    D: bf16 = (acc - mean(acc, axis=1)) * rsqrt(var(acc, axis=1) + 1e-5) + s
    return D
