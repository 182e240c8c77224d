# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=232 k=900
# data: data=12 values=normal layout=0 seed=18
# schedule: pingpong 64x64x3 sub 32x2 aux 2 raster 2 split 2 by memory at end
# schedule: pingpong 64x64x3 sub 32x2 aux 2 raster 2 split 2 by memory in shares at end
# schedule: pingpong 64x128x3 sub 32x2 aux 2 raster 2 split 7 by memory at end
# schedule: cooperative 128x64x3 sub 32x2 aux 2 raster 2 split 5 by memory at end
# schedule: cooperative 128x64x2 sub 32x2 aux 2 raster 2 split 13 by memory at end
def epilogue(acc, residual: tile[bf16], bias: row[bf16]):
    D: bf16 = silu(acc + bias) + residual
    amax: f32 = max(abs(D), axis=1)
    return D, amax
