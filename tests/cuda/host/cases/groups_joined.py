# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=320 k=40
# data: data=14 values=normal layout=0 seed=20
def epilogue(acc):
    s = sum(acc, axis=1, group=64)
    t = max(acc, axis=1, group=64)
    S: f32 = concat((s, t))
    D: bf16 = acc - repeat(t, 64)
    return S, D
