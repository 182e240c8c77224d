# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=328 k=136
# data: data=9 values=normal layout=0 seed=10
# schedule: turned pingpong 64x48x3 sub 16x2 aux 1 raster 2
# schedule: turned cooperative 128x80x2 sub 16x2 aux 1 raster 2
# schedule: turned pingpong 128x64x2 sub 32x2 aux 1 raster 1 split 2 by memory
# schedule: turned pingpong 192x32x2 sub 32x2 aux 1 raster 1 looped
def epilogue(acc, bias: row[bf16], r: tile[bf16], g: row[bf16], b: row[bf16]):
    x = acc + bias + r
    D: bf16 = (x - mean(x, axis=1)) * rsqrt(var(x, axis=1) + 0.00001) * g + b
    S: bf16 = x
    return D, S
