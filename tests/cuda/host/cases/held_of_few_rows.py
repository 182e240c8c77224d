# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=3 n=1370 k=72
# data: data=12 values=normal layout=0 seed=3
# schedule: pingpong 64x32x12 sub 32x2 aux 0 raster 1
def epilogue(acc, gamma: row[f32], beta: row[bf16]):
    y = (acc - mean(acc, axis=1)) * rsqrt(var(acc, axis=1) + 0.00001)
    D: bf16 = y * gamma + beta
    return D
