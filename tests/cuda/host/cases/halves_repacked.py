# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=342 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x128x4 sub 32x2 aux 0 raster 2
# schedule: cooperative 128x256x3 sub 32x2 aux 0 raster 2 cluster 2x1
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 2
def epilogue(acc):
    gate, up = chunk(acc, 2)
    d: bf16 = silu(gate) * up
    return d
