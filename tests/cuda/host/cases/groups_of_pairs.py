# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=256 k=40
# data: data=13 values=normal layout=0 seed=19
def epilogue(acc, cos: row[f32], sin: row[f32]):
    y = acc * repeat(rsqrt(mean(acc * acc, axis=1, group=64) + 1e-6), 64)
    even, odd = chunk(y, 2, group=2)
    D: bf16 = concat((even * cos - odd * sin, odd * cos + even * sin), group=2)
    return D
