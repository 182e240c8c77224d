# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=300 k=40
# data: data=10 values=normal layout=0 seed=16
def epilogue(acc, scale: row[f32]):
    m = mean(acc, axis=1, group=64)
    d = acc - repeat(m, 64)
    s = mean(d * d, axis=1, group=64)
    D: bf16 = d * rsqrt(repeat(s, 64) + 1e-5) * scale
    return D
