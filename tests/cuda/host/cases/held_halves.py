# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=272 k=72
# data: data=12 values=normal layout=0 seed=18
def epilogue(acc, residual: tile[bf16], gamma: row[f16]):
    x = acc + residual
    y = x * rsqrt(mean(x * x, axis=1) + 1e-6) * gamma
    gate, up = chunk(y, 2)
    D: f16 = silu(gate) * up
    return D
