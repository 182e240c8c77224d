# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=384 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x128x3 sub 16x2 aux 2 raster 1
# schedule: mma 64x64x3 sub 16x1 aux 1 raster 1
def epilogue(acc, z: tile[bf16]):
    a, b = chunk(acc, 2, group=32)
    c, d = chunk(z, 2, group=96)
    y: bf16 = concat((a * c, b + d), group=32)
    s: f32 = sum(a * b, axis=1)
    return y, s
