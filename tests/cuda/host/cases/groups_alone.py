# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=250 k=40
# data: data=6 values=normal layout=0 seed=13
def epilogue(acc, by: tile[bf16]):
    s: f32 = sum(acc * by, axis=1, group=96)
    a: i64 = argmax(acc, axis=1, group=96)
    v: f32 = var(acc, axis=1, group=96)
    r: f32 = max(acc, axis=1)
    D: bf16 = acc
    return s, a, v, r, D
