# problem: kind=gemm a=f16 b=f16 batched=0
# shape: batch=1 m=133 n=248 k=136
# data: data=9 values=normal layout=0 seed=12
# schedule: turned pingpong 64x48x3 sub 16x2 aux 0 raster 2
# schedule: turned cooperative 128x144x2 sub 16x2 aux 0 raster 2
# schedule: turned pingpong 128x144x4 sub 16x2 aux 0 raster 2 split 2
# schedule: turned pingpong 128x144x2 sub 16x2 aux 0 raster 2 split 2 by memory in shares
def epilogue(acc, scale: col[f32]):
    x = acc * scale
    N: f32 = sqrt(sum(x * x, axis=1))
    D: f16 = x / max(N, 0.000001)
    return D, N
