# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=200 n=328 k=136
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, gamma: row[f32], beta: row[bf16]):
    x = cast(acc, bf16)
    y = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 1e-5)
    D: bf16 = y * gamma + beta
    return D
