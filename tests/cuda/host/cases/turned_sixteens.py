# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=77 n=416 k=72
# data: data=9 values=normal layout=213048 seed=10
# schedule: turned pingpong 128x48x3 sub 16x2 aux 0 raster 2
# schedule: turned cooperative 256x80x2 sub 16x2 aux 0 raster 2
def epilogue(acc, z: tile[bf16]):
    a, b = chunk(acc + z * random(seed=5), 2, group=32)
    D: f32 = where(random(seed=4) < 0.5, a * sigmoid(b), 0)
    return D
