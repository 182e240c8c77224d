# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=33 n=200 k=264
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x64x4 sub 64x2 aux 0 raster 2
# schedule: pingpong 64x256x4 sub 32x2 aux 0 raster 2 split 2
# schedule: pingpong 128x64x4 sub 32x2 aux 0 raster 2 split 2 by memory
# schedule: cooperative 128x128x3 sub 32x2 aux 0 raster 2
def epilogue(acc):
    x: bf16 = acc
    v: f32 = var(acc, axis=0)
    a: f32 = max(abs(acc), axis=0)
    scale = a / 127 + 1e-6
    s: bf16 = scale
    return x, v, a, s
