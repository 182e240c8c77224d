# problem: kind=stream a=f32 b=f32 batched=1
# shape: batch=1 m=511 n=3 k=0
# data: data=14435326834564964995 values=normal layout=15733714965914022375 seed=103019164
def epilogue(acc):
    y0: f32 = sum(acc, axis=0)
    return y0
