# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=200 n=264 k=72
# data: data=11 values=normal layout=0 seed=33
# schedule: pingpong 64x128x4 sub 64x2 aux 0 raster 2
# schedule: pingpong 128x64x3 sub 32x2 aux 0 raster 2 split 2
# schedule: cooperative 128x128x3 sub 64x2 aux 0 raster 2
# schedule: mma 128x256x3 sub 64x1 aux 0 raster 2
def epilogue(acc):
    e = exp(acc - repeat(max(acc, axis=0, group=64), 64, axis=0))
    D: bf16 = e / repeat(sum(e, axis=0, group=64), 64, axis=0)
    best: i64 = argmax(acc, axis=0, group=64)
    return D, best
