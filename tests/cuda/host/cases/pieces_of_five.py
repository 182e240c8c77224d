# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=330 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x160x3 sub 16x2 aux 0 raster 1
def epilogue(acc):
    a, b = chunk(acc, 2, group=10)
    y: f32 = a - 2 * b
    s: f32 = sum(y, axis=0)
    return y, s
