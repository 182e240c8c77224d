# problem: kind=gemm a=e4m3 b=e4m3 batched=0
# shape: batch=1 m=20 n=267 k=171
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc):
    d: bf16 = acc
    return d
