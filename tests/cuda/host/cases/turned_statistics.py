# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=203 n=328 k=264
# data: data=17 values=normal layout=0 seed=42
# schedule: turned pingpong 128x96x4 sub 32x2 aux 2 raster 12
# schedule: turned cooperative 128x144x3 sub 16x2 aux 2 raster 2
# schedule: turned pingpong 64x64x3 sub 64x2 aux 1 raster 3 split 2 by memory
# schedule: turned pingpong 192x112x3 sub 16x2 aux 2 raster 1 cluster 1x2
def epilogue(acc, z: tile[bf16], bias: row[f32]):
    x = acc * dgelu(z) + bias
    D: bf16 = x
    s: f32 = sum(x, axis=0)
    a: f32 = max(abs(x), axis=0)
    mu: f32 = mean(x, axis=0)
    v: f32 = var(x, axis=0)
    r: f32 = logsumexp(x, axis=1)
    w: f32 = var(x, axis=1)
    t: f32 = sum(x * x)
    return D, s, a, mu, v, r, w, t
