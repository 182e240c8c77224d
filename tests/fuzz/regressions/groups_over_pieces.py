# problem: kind=gemm a=f32 b=f32 batched=0
# shape: batch=1 m=30 n=48 k=8
# data: data=43661330 values=integers layout=0 seed=50386
def epilogue(acc):
    a, b = chunk(acc, 2)
    S: f32 = sum(concat((b, a)), axis=1, group=3)
    G: f32 = max(acc, axis=1, group=5)
    D: f32 = a * b
    return S, G, D
