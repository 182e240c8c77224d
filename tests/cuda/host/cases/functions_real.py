# problem: kind=gemm a=f32 b=f32 batched=0
# shape: batch=1 m=37 n=130 k=2
# data: data=3 values=special layout=0 seed=1
def soft_cap(x):
    return 30 * tanh(x / 30)

def epilogue(acc):
    a: f32 = softplus(acc)
    b: f32 = logsigmoid(acc)
    c: f32 = mish(acc)
    d: f32 = elu(acc)
    e: f32 = elu(acc, 2)
    f: f32 = selu(acc)
    g: f32 = gelu_erf(acc)
    h: f32 = hardswish(acc)
    i: f32 = hardsigmoid(acc)
    j: f32 = softsign(acc)
    k: f32 = soft_cap(acc)
    l: f32 = tanh(acc / 3)
    return a, b, c, d, e, f, g, h, i, j, k, l
