# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=1056 k=72
# data: data=9 values=normal layout=1 seed=10
# schedule: pingpong 64x192x3 sub 32x2 aux 0 raster 1
def epilogue(acc):
    a, b, c = chunk(acc, 3, group=24)
    y0: bf16 = a * b + c
    y1: f16 = concat((c, b, a), group=24)
    return y0, y1
