# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=352 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, v: row[f32]):
    x = where(v > 0.5, -inf, acc)
    w = where(v > 0.5, 3e38, v)
    p = exp((x - max(x, axis=1)) * 0.5)
    s: f32 = sum(p * w, axis=1)
    return s
