# problem: kind=gemm a=f16 b=f16 batched=0
# shape: batch=1 m=75 n=131 k=203
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc):
    d: f16 = acc
    return d
