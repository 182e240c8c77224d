# problem: kind=gemm a=f16 b=f16 batched=0
# shape: batch=1 m=40 n=288 k=96
# data: data=9 values=normal layout=3 seed=88
# schedule: by groups pingpong 64x32x3 sub 32x2 aux 0 raster 2
# schedule: by groups pingpong 64x96x3 sub 32x2 aux 0 raster 1
# schedule: by groups pingpong 64x32x3 sub 32x2 aux 0 raster 1 cluster 1x3 meets
def epilogue(acc, gamma: row[f16]):
    centred = acc - repeat(mean(acc, axis=1, group=96), 96)
    variance: f32 = mean(centred * centred, axis=1, group=96)
    D: f16 = centred * repeat(rsqrt(variance + 1e-5), 96) * gamma + m_index()
    return D, variance
