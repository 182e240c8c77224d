# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=85 n=120 k=264
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x128x3 sub 32x2 aux 0 raster 2
# schedule: pingpong 128x128x3 sub 32x2 aux 0 raster 2 looped
# schedule: pingpong 192x128x2 sub 32x2 aux 0 raster 2 cluster 2x1
# schedule: cooperative 128x128x3 sub 64x2 aux 0 raster 4
# schedule: pingpong 64x128x3 sub 32x2 aux 0 raster 2 split 3 by memory
def epilogue(acc, bias: row[f32]):
    x = acc + bias
    i: i64 = argmax(x, axis=1)
    v: f32 = var(x, axis=1)
    l: f32 = logsumexp(x, axis=1)
    s: bf16 = max(abs(x), axis=1) / 127 + mean(x, axis=1)
    D: bf16 = x
    return D, i, v, l, s
