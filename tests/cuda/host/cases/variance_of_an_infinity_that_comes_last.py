# problem: kind=stream a=f32 b=f32 batched=0
# shape: batch=1 m=31 n=4 k=0
# data: data=16519750402464427305 values=special layout=11129916473278398007 seed=1795340217
def epilogue(acc):
    v0 = var(acc, axis=0)
    y0: f32 = abs(tanh(v0 // rsqrt(v0 + 0.001))) ** 0.001
    y3: f32 = var(y0, axis=1) + 0.001
    y1: f32 = rsqrt(y3)
    y2: f32 = (y0 - mean(y0, axis=1)) * y1
    return y0, y1, y2, y3

