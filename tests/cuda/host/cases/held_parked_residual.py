# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=3 m=190 n=248 k=72
# data: data=19 values=normal layout=0 seed=53
# schedule: pingpong 64x128x3 sub 32x2 aux 2 raster 2 parks
# schedule: pingpong 128x64x3 sub 32x2 aux 1 raster 1 parks
# schedule: pingpong 64x64x4 sub 64x2 aux 4 raster 1 parks
# schedule: pingpong 64x128x2 sub 32x2 aux 1 raster 3 parks looped
def epilogue(acc, r: tile[bf16], gamma: row[f32]):
    x = acc + r
    s: f32 = rsqrt(mean(x * x, axis=1) + 1e-5)
    t: f32 = max(abs(x), axis=1)
    D: bf16 = x * s * gamma * r
    Q: s8 = round(clamp(x * (127 / max(t, 1e-6)), -127, 127))
    return D, Q, s, t
