# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=3 m=37 n=56 k=157
# data: data=9 values=normal layout=2 seed=35
# schedule: pingpong 64x64x3 sub 32x2 aux 0 raster 1 A and B shifted
# schedule: pingpong 64x128x2 sub 32x2 aux 0 raster 1 A and B shifted
def epilogue(acc):
    d: bf16 = acc - max(acc, axis=1)
    return d
