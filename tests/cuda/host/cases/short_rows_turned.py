# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=1 m=33 n=40 k=16
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc):
    d: bf16 = acc
    return d
