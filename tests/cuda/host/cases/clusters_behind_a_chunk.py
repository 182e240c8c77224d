# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=300 n=720 k=136
# data: data=16 values=normal layout=0 seed=41
# schedule: pingpong 64x128x4 sub 32x2 aux 0 raster 2 cluster 2x1
# schedule: pingpong 128x128x3 sub 32x2 aux 0 raster 2 cluster 1x2
# schedule: cooperative 128x256x3 sub 32x2 aux 0 raster 2 cluster 2x1
def epilogue(acc):
    gate, up = chunk(acc, 2)
    D: bf16 = silu(gate) * up
    s: f32 = sum(D, axis=0)
    return D, s
