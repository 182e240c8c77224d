# problem: kind=conv conv=wgrad,2,8,16,0,5,3,1,1,1,1,5,3,1,1,1,1 a=bf16 b=bf16 batched=0
# shape: batch=1 m=0 n=144 k=50
# data: data=12 values=normal layout=0 seed=1
def epilogue(acc):
    y0: f32 = acc
    y1: f32 = sum(acc, axis=0)
    return y0, y1
