# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=130 n=480 k=40
# data: data=9 values=normal layout=3 seed=10
# schedule: pingpong 128x160x3 sub 32x2 aux 0 raster 1
def epilogue(acc):
    v: f32 = var(acc, axis=1, group=160)
    D: bf16 = (acc - repeat(mean(acc, axis=1, group=160), 160)) * repeat(rsqrt(v + 1e-5), 160)
    return v, D
