# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=208 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: turned pingpong 128x48x3 sub 16x2 aux 0 raster 2
# schedule: turned cooperative 256x80x2 sub 16x2 aux 0 raster 2
def epilogue(acc, g: row[f32]):
    x = acc * rsqrt(mean(acc * acc, axis=1) + 0.00001)
    gate, up = chunk(x, 2)
    D: bf16 = silu(gate) * up * g
    return D
