# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=133 n=264 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: cooperative 128x64x3 sub 64x2 aux 0 raster 2
def epilogue(acc):
    y0: f32 = max(acc, axis=0)
    return y0
