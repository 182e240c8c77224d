# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=200 n=208 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: turned pingpong 64x64x3 sub 32x2 aux 0 raster 2
# schedule: turned cooperative 128x96x2 sub 16x2 aux 0 raster 2
def epilogue(acc):
    top: f32 = max(abs(acc), axis=0, group=32)
    all: f32 = sum(acc, axis=0)
    return top, all
