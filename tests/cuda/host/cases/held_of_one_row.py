# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=1 n=2850 k=200
# data: data=9 values=normal layout=0 seed=4
# schedule: pingpong 64x64x8 sub 32x2 aux 0 raster 1
def epilogue(acc):
    scale: f32 = max(max(abs(acc), axis=1), 0.0001) / 127
    D: s8 = acc / scale
    return scale, D
