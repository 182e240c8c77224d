# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=256 k=40
# data: data=16 values=normal layout=0 seed=22
def epilogue(acc):
    v: f32 = var(acc, axis=1, group=64)
    D: f32 = acc * rsqrt(repeat(v, 64) + 1e-05)
    return D, v
