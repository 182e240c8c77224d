# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=390 k=72
# data: data=9 values=normal layout=1 seed=10
# schedule: pingpong 64x96x4 sub 32x2 aux 0 raster 1
def epilogue(acc, w: row[f32], r: tile[bf16]):
    q, k, v = chunk(acc, 3)
    e, f, g = chunk(w, 3)
    x = q * e + silu(k) * f
    y0: bf16 = concat((x, v * g + r, q - v))
    y1: f32 = sum(x * v, axis=1)
    y2: f32 = mean(v, axis=0)
    return y0, y1, y2
