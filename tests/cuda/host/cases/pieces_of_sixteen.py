# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=352 k=72
# data: data=9 values=normal layout=1 seed=10
# schedule: pingpong 64x192x3 sub 32x2 aux 0 raster 1
# schedule: cooperative 128x128x3 sub 64x2 aux 0 raster 1
# schedule: mma 64x64x3 sub 32x1 aux 0 raster 1
def epilogue(acc):
    a, b = chunk(acc, 2, group=32)
    y: bf16 = silu(a) * b
    s: f32 = max(a - b, axis=1)
    return y, s
