# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=70 n=384 k=40
# data: data=13 values=normal layout=0 seed=14
def epilogue(acc, z: tile[bf16], r: row[f32]):
    a, b = chunk(acc, 2, group=192)
    c, d = chunk(z, 2, group=64)
    e, f = chunk(r, 2)
    y0: bf16 = concat((a * e, b + f), group=192)
    y1: f16 = concat((a * b, a - b))
    y2: f32 = concat((c + a, d * b), group=64)
    y3: f32 = max(a * b, axis=1)
    return y0, y1, y2, y3
