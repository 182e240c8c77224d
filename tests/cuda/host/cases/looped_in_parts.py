# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=197 n=328 k=200
# data: data=9 values=normal layout=0 seed=10
# schedule: turned pingpong 128x176x2 sub 16x2 aux 1 raster 1 split 3 by memory looped
# schedule: turned cooperative 128x240x2 sub 16x2 aux 1 raster 2 cluster 2x1 looped
def epilogue(acc, bias: row[f32], r: tile[bf16], keep: row[bool]):
    x = acc + bias + r
    D: bf16 = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 0.00001)
    low: f32 = min(where(keep, acc, 3), axis=1)
    at: i64 = argmax(x, axis=0)
    v: f32 = var(acc, axis=0)
    return D, low, at, v
