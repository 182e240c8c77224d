# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=208 k=72
# data: data=9 values=normal layout=172260 seed=10
# schedule: turned pingpong 64x48x3 sub 16x2 aux 1 raster 2
# schedule: turned pingpong 128x88x2 sub 32x2 aux 1 raster 1
def epilogue(acc, z: tile[bf16]):
    gate, up = chunk(z, 2)
    D: bf16 = concat((acc * up * dsilu(gate), acc * silu(gate)))
    return D
