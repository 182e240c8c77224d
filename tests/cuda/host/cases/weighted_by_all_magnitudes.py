# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=352 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, v: row[f32], h: row[f16], t: tile[f32]):
    e = exp((acc - max(acc, axis=1)) * 2.0)
    p = e / sum(e, axis=1)
    low: f32 = sum(e * (v * 1e-30), axis=1)
    high: f32 = sum(p * (abs(t) * 5e37), axis=1)
    mixed: f32 = sum(p * where(acc < 0.0, 3e38, v), axis=1)
    half: f32 = sum(p * h, axis=1)
    return low, high, mixed, half
