# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=384 k=40
# data: data=11 values=normal layout=0 seed=17
def epilogue(acc, weight: row[bf16], cos: row[bf16], sin: tile[f32]):
    x: bf16 = acc * weight
    y = x * repeat(rsqrt(mean(x * x, axis=1, group=128) + 1e-6), 128)
    a, b = chunk(y, 2, group=128)
    D: bf16 = concat((a * cos - b * sin, b * cos + a * sin), group=128)
    return D, x
