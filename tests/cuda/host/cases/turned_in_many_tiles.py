# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=37 n=4168 k=24
# data: data=9 values=normal layout=0 seed=10
# schedule: turned pingpong 64x48x3 sub 16x2 aux 0 raster 2
# schedule: turned cooperative 128x32x2 sub 32x2 aux 0 raster 1
def epilogue(acc, bias: row[bf16]):
    x = acc + bias
    D: bf16 = x
    m: f32 = mean(x, axis=1)
    v: f32 = var(x, axis=1)
    i: i64 = argmax(x, axis=1)
    l: f32 = logsumexp(x, axis=1)
    return D, m, v, i, l
