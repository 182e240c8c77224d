# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=3 m=90 n=400 k=72
# data: data=19 values=normal layout=0 seed=14
# schedule: pingpong 64x256x3 sub 32x2 aux 2 raster 8 cluster 1x2 meets
# schedule: cooperative 128x64x4 sub 64x2 aux 2 raster 8 cluster 1x7 meets
# schedule: pingpong 64x192x4 sub 32x2 aux 4 raster 8 cluster 1x3 meets
def epilogue(acc, r: tile[bf16], gamma: row[f32]):
    x = acc + r
    s: f32 = rsqrt(mean(x * x, axis=1) + 1e-5)
    t: f32 = max(abs(x), axis=1)
    D: bf16 = x * s * gamma
    Q: s8 = round(clamp(x * (127 / max(t, 1e-6)), -127, 127))
    R: bf16 = x
    return D, Q, s, t
