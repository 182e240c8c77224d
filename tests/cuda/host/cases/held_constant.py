# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=511 n=65 k=65
# data: data=4678973065685595252 values=integers layout=8529535033257111691 seed=2000000117
def epilogue(acc):
    v0 = 100.0 >= 2
    v1 = where(v0, v0, max(tanh(acc), min(acc, acc)))
    y0: s8 = v1 * rsqrt(mean(v1 * v1, axis=1) + 1e-06)
    return y0

