# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=70 n=131 k=40
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, t: tile[f16]):
    y0: bf16 = acc + t
    y1: f32 = acc
    y2: s8 = acc * 40.0
    return y0, y1, y2
