# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=149 n=200 k=24
# data: data=11 values=normal layout=0 seed=12
# schedule: turned pingpong 64x48x3 sub 16x2 aux 1 raster 2
# schedule: turned cooperative 128x64x3 sub 32x2 aux 2 raster 2
# schedule: turned pingpong 128x96x3 sub 32x2 aux 1 raster 2 looped
def epilogue(acc, r: tile[bf16]):
    x = where(random(seed=1) < 0.75, acc / 0.75, 0)
    D: bf16 = x + r
    E: bf16 = cast(acc * random(seed=2), bf16, round=stochastic(3))
    s: f32 = sum(x, axis=0)
    return D, E, s
