# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=200 n=328 k=136
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, bias: row[f32], residual: tile[bf16], scale: col[f32]):
    x = tanh(erf(acc + bias) * scale) + expm1(min(acc, 0))
    y0: bf16 = mish(x) + residual
    y1: f32 = sum(x, axis=0)
    y2: f32 = max(x, axis=1)
    y3: f32 = sum(x * x)
    return y0, y1, y2, y3
