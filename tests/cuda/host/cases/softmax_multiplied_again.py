# problem: kind=gemm a=f16 b=f16 batched=0
# shape: batch=1 m=330 n=1160 k=40
# data: data=6 values=normal layout=1 seed=33
# schedule: pingpong 64x64x4 sub 64x2 aux 0 raster 1 again
# schedule: pingpong 128x64x4 sub 32x2 aux 0 raster 2 again
# schedule: pingpong 64x192x4 sub 32x2 aux 0 raster 12 again
# schedule: cooperative 128x128x4 sub 32x2 aux 0 raster 2 again
def epilogue(acc, bias: row[f16]):
    x = acc + bias
    e = exp(x - max(x, axis=1))
    D: f16 = e / sum(e, axis=1)
    return D
