# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=136 n=384 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, bias: row[f32]):
    a, b = chunk(acc, 2, group=128)
    x = mish(erf(a)) * tanh(b) + bias
    y0: bf16 = x
    y1: f32 = sum(x, axis=1)
    y2: f32 = mean(x, axis=0)
    return y0, y1, y2
