# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=352 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, v: row[f32]):
    x = acc * 0.001
    e = exp(x - max(x, axis=1))
    w = (abs(v) + 1.0) * 3e36
    s: f32 = sum(e / sum(e, axis=1) * w, axis=1)
    return s
