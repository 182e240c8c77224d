# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=960 k=72
# data: data=9 values=normal layout=3 seed=10
# schedule: pingpong 128x160x3 sub 16x2 aux 2 raster 1
# schedule: pingpong 64x160x3 sub 16x2 aux 2 raster 1
def epilogue(acc, r: tile[bf16]):
    a, b, c, d, e = chunk(acc, 5, group=240)
    D: bf16 = (a * b + c) * d + e + r
    s: f32 = sum(D, axis=0)
    return D, s
