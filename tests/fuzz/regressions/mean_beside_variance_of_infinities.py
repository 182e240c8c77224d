# problem: kind=stream a=f32 b=f32 batched=0
# shape: batch=1 m=40 n=600 k=0
# data: data=5 values=special layout=0 seed=3
def epilogue(acc):
    x = abs(acc)
    y0: f32 = mean(x, axis=0)
    y1: f32 = var(x, axis=0)
    y2: f32 = mean(x, axis=1)
    y3: f32 = var(x, axis=1)
    return y0, y1, y2, y3
