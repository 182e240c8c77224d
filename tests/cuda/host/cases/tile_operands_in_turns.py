# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=520 n=264 k=72
# data: data=11 values=normal layout=0 seed=12
# schedule: pingpong 128x64x6 sub 32x2 aux 2 raster 2
# schedule: pingpong 64x128x4 sub 32x3 aux 1 raster 8
# schedule: cooperative 128x128x3 sub 32x2 aux 1 raster 2
def epilogue(acc, z: tile[bf16], mask: tile[bool]):
    y: bf16 = where(mask, gelu(acc), 0.0) + z
    return y
