# problem: kind=gemm a=e4m3 b=e4m3 batched=1
# shape: batch=2 m=150 n=72 k=21
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc):
    d: bf16 = acc
    return d
