# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=352 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, v: row[f32]):
    w = where(v > 1.5, inf, v)
    e = exp((acc - max(acc, axis=1)) * 20.0)
    s: f32 = sum(e * w, axis=1)
    return s
