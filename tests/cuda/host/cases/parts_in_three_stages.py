# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=256 k=520
# data: data=7 values=normal layout=0 seed=7
# schedule: pingpong 64x64x3 sub 32x4 aux 4 raster 16 split 6 by memory
def f(acc, bias: row[bf16], residual: tile[bf16]):
    z: bf16 = acc + bias
    D: bf16 = gelu(z) + residual
    return D, z
