# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=352 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, v: row[f32], t: tile[bf16]):
    e = exp((acc - max(acc, axis=1)) * 0.25)
    p = e / sum(e, axis=1)
    y: bf16 = p
    s: f32 = sum(p * v, axis=1)
    q: f32 = sum(p * p, axis=1)
    r: f32 = sum(p * t, axis=1)
    return y, s, q, r
