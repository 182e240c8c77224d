# problem: kind=gemm a=f32 b=f32 batched=0
# shape: batch=1 m=31 n=43 k=99
# data: data=11102361408523508867 values=normal layout=0 seed=852
def epilogue(acc):
    y0: f32 = acc
    return y0
