# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=20 n=202 k=139
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc):
    x, y = chunk(acc, 2)
    d: bf16 = x * y
    return d
