# problem: kind=conv conv=dgrad,2,16,0,1,5,5,1,0,0,1,1,3,3,8,0,1 a=bf16 b=bf16 batched=1
# shape: batch=2 m=5 n=0 k=15
# data: data=12 values=normal layout=0 seed=1
def epilogue(acc, x0: col[f32]):
    y0: f32 = acc + x0
    y1: f32 = abs(x0)
    return y0, y1
