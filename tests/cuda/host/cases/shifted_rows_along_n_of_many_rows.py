# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=61 n=204 k=149
# data: data=9 values=normal layout=0 seed=20
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 1 shifted
# schedule: pingpong 64x128x2 sub 32x2 aux 0 raster 1 shifted
# schedule: cooperative 128x128x3 sub 32x2 aux 0 raster 1 shifted
def epilogue(acc):
    e = exp(acc - max(acc, axis=1))
    D: bf16 = e / sum(e, axis=1)
    i: i64 = argmax(acc, axis=1)
    c: f32 = sum(acc, axis=0)
    return D, i, c
