# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=256 k=40
# data: data=15 values=normal layout=0 seed=21
def epilogue(acc, w: row[f32], g: row[f32]):
    r = rsqrt(mean(acc * acc, axis=1, group=64) + 1e-06)
    D: bf16 = acc * repeat(r, 64) * (w * repeat(g, 64))
    return D
