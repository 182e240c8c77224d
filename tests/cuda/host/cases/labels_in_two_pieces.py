# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=77 n=256 k=128
# data: data=9 values=normal layout=0 seed=87
# schedule: pingpong 64x128x3 sub 32x2 aux 0 raster 2
def epilogue(acc, label: col[i64]):
    a, b = chunk(acc, 2)
    u = where(n_index() == label, a, 0)
    v = where(n_index() == label, b, 0)
    s: f32 = sum(concat((u, v)), axis=1)
    D: bf16 = a * b
    return D, s
