# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=150 n=416 k=136
# data: data=9 values=normal layout=734143 seed=10
# schedule: turned pingpong 128x80x3 sub 16x2 aux 0 raster 1
# schedule: turned cooperative 256x96x2 sub 48x2 aux 0 raster 1
# schedule: turned pingpong 128x64x3 sub 32x3 aux 0 raster 1 looped
def epilogue(acc, bias: row[bf16]):
    gate, up = chunk(acc + bias, 2)
    x = relu(gate) * up
    d = x - mean(x, axis=0)
    D: bf16 = d * rsqrt(mean(d * d, axis=0) + 1e-05)
    return D
