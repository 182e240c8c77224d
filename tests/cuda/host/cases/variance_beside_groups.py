# problem: kind=gemm a=f16 b=f16 batched=0
# shape: batch=1 m=90 n=136 k=64
# data: data=11 values=normal layout=0 seed=1
# schedule: pingpong 64x128x5 sub 32x2 aux 0 raster 2
# schedule: cooperative 128x64x4 sub 32x2 aux 0 raster 2
def epilogue(acc):
    spread: f32 = var(acc, axis=1)
    total: f32 = sum(acc, axis=1, group=32)
    most: f32 = max(abs(acc), axis=1, group=32)
    return spread, total, most
