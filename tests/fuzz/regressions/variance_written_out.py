# problem: kind=stream a=f32 b=f32 batched=0
# shape: batch=1 m=64 n=1 k=0
# data: data=5400666402170143951 values=integers layout=0 seed=1
def epilogue(acc):
    x = acc + 1000.0
    y0: f32 = mean(x, axis=0)
    y1: f32 = mean(cast((x - y0) * (x - mean(x, axis=0)), f32), axis=0)
    y2: f32 = mean((x - y0) ** 2, axis=0)
    return y0, y1, y2
