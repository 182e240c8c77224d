# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=128 k=32
# data: data=13 values=normal layout=0 seed=14
def epilogue(acc):
    gate, up = chunk(acc, 2)
    e = exp(gate - max(gate, axis=1))
    d: f32 = e / sum(e, axis=1) * up
    return d
