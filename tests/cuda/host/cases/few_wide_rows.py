# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=21 n=2120 k=24
# data: data=9 values=normal layout=0 seed=21
# schedule: pingpong 64x64x4 sub 64x2 aux 0 raster 2
# schedule: mma 64x64x3 sub 32x1 aux 0 raster 2
def epilogue(acc):
    i: i64 = argmax(acc, axis=1)
    v: f32 = var(acc, axis=1)
    l: f32 = logsumexp(acc, axis=1)
    c: f32 = sum(acc, axis=0)
    return i, v, l, c
