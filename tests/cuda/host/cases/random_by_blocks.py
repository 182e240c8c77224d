# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=3 m=75 n=112 k=40
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, residual: tile[bf16]):
    y0: f32 = where(random(seed=1) < 0.9, acc / 0.9, 0) + residual
    y1: bf16 = cast(acc, bf16, round=stochastic(7))
    y2: f32 = acc * random(seed=2, stream=3) + random(seed=2)
    y3: f32 = where(0.25 >= random(seed=4), 1, random(seed=5))
    y4: f32 = where(random(seed=6) > 0.5, acc, where(random(seed=8) <= 0, 2, 3))
    y5: f32 = where(random(seed=9) >= 1.5, acc, 1) * where(0.5 > random(seed=10), acc, 1)
    return y0, y1, y2, y3, y4, y5
