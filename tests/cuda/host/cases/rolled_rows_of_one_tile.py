# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=330 n=88 k=136
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 128x128x3 sub 32x2 aux 2 raster 2
# schedule: pingpong 192x128x2 sub 32x2 aux 2 raster 2
# schedule: cooperative 256x128x3 sub 32x2 aux 2 raster 2
def epilogue(acc, bias: row[f32], residual: tile[bf16]):
    x = mish(erf(acc + bias)) + abs(tanh(acc * mish(bias))) ** 0.3 + residual
    y = x - mean(x, axis=1)
    D: bf16 = y * rsqrt(mean(y * y, axis=1) + 1e-5)
    return D
