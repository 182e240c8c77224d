# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=376 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc):
    gate, up = chunk(acc, 2)
    d: bf16 = gate * up
    return d
