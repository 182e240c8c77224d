# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=200 n=331 k=200
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 128x192x3 sub 64x2 aux 0 raster 1 split 2 by memory looped
# schedule: pingpong 192x128x3 sub 32x2 aux 0 raster 2 cluster 1x2 split 2 by memory looped
def epilogue(acc, bias: row[f32], r: tile[bf16], keep: row[bool]):
    x = acc + bias + r
    D: bf16 = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 0.00001)
    low: f32 = min(where(keep, acc, 3), axis=1)
    at: i64 = argmax(x, axis=0)
    v: f32 = var(acc, axis=0)
    return D, low, at, v
