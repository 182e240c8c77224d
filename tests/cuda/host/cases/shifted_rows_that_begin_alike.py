# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=37 n=7 k=145
# data: data=9 values=normal layout=11886 seed=13
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 1 shifted
# schedule: cooperative 128x64x3 sub 32x2 aux 0 raster 1 shifted
def epilogue(acc):
    D: f32 = acc
    i: i64 = argmax(acc, axis=1)
    c: f32 = sum(acc, axis=0)
    return D, i, c
