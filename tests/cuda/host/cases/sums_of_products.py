# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=264 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, x: tile[bf16], r: row[f32], c: col[f32]):
    y0: f32 = sum(acc * x)
    y1: f32 = sum(acc * r, axis=1)
    y2: f32 = sum(x * c, axis=0)
    y3: bf16 = acc * rsqrt(sum(acc * acc, axis=1) / 264 + 1e-5)
    return y0, y1, y2, y3

