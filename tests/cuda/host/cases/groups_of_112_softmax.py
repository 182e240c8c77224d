# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=130 n=448 k=40
# data: data=9 values=normal layout=3 seed=10
# schedule: pingpong 64x224x3 sub 16x2 aux 0 raster 1
def epilogue(acc):
    e = exp(acc - repeat(max(acc, axis=1, group=112), 112))
    D: f32 = e / repeat(sum(e, axis=1, group=112), 112)
    return D
