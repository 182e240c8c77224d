# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=300 n=136 k=72
# data: data=9 values=normal layout=0 seed=12
# schedule: mma 256x64x2 sub 32x1 aux 0 raster 2
# schedule: mma 256x128x2 sub 32x1 aux 0 raster 2
def epilogue(acc, c: row[f32]):
    x = tanh(acc + c) + erf(acc)
    y = sigmoid(x) * tanh(c - acc) + erf(x * c)
    z = sin(y) + cos(x) + erf(y - x) * tanh(y * c)
    D: f32 = tanh(z) + sigmoid(z * c) + erf(z + y)
    return D
