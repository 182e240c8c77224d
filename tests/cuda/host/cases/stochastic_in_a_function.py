# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=272 k=72
# data: data=12 values=normal layout=0 seed=18
def coarse(x):
    return cast(x, bf16, round=stochastic(3))
def epilogue(acc):
    D: f32 = coarse(acc)
    return D
