# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=70 n=384 k=40
# data: data=3 values=normal layout=0 seed=11
def epilogue(acc, weight: row[bf16], residual: tile[bf16], gate: tile[f16], scale: col[f32]):
    x: bf16 = acc + residual
    r = rsqrt(mean(x * x, axis=1, group=64) + 1e-6)
    D: bf16 = x * repeat(r, 64) * weight * scale + gate
    return x, D
