# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=408 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x192x3 sub 32x2 aux 0 raster 1
# schedule: mma 64x64x3 sub 32x1 aux 0 raster 1
def epilogue(acc, r: row[f32]):
    a, b = chunk(acc, 2, group=24)
    y: bf16 = a * b + r
    z: f32 = concat((b, a), group=24)
    return y, z
