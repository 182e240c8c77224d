# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=384 k=72
# data: data=9 values=normal layout=213048 seed=10
# schedule: turned pingpong 128x48x3 sub 16x2 aux 0 raster 2
# schedule: turned cooperative 256x64x2 sub 64x2 aux 0 raster 2
def epilogue(acc, z: tile[bf16], bias: row[f32]):
    a, b = chunk(acc + bias + z, 2, group=96)
    D: bf16 = a * sigmoid(b)
    E: bf16 = concat((b, a), group=96)
    return D, E
