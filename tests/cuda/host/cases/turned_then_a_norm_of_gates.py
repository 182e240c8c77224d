# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=336 k=136
# data: data=9 values=normal layout=0 seed=10
# schedule: turned pingpong 128x48x3 sub 16x2 aux 0 raster 2
# schedule: turned cooperative 256x64x2 sub 64x2 aux 0 raster 2
# schedule: turned pingpong 128x80x2 sub 16x2 aux 0 raster 1 split 2 by memory
def epilogue(acc, g: row[bf16]):
    gate, up = chunk(acc, 2)
    x = silu(gate) * up
    D: bf16 = x * rsqrt(mean(x * x, axis=1) + 0.00001) * g
    return D
