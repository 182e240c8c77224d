# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=1280 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x256x3 sub 32x2 aux 0 raster 1
# schedule: cooperative 128x256x3 sub 32x2 aux 0 raster 1
def epilogue(acc):
    a, b, c, d, e, f, g, h = chunk(acc, 8)
    D: bf16 = a * b + c * d + e * f + g * h
    m: f32 = max(a - h, axis=1)
    return D, m
