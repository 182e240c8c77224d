# problem: kind=gemm a=f32 b=f32 batched=0
# shape: batch=1 m=33 n=80 k=24
# data: data=11 values=special layout=0 seed=3
def epilogue(acc, t: tile[f32], c: col[bf16], s: scalar[f32]):
    y0: f32 = exp(acc) + exp2(t)
    y1: f32 = expm1(acc) * log1p(t)
    y2: f32 = log(t) - log2(acc)
    y3: f32 = tanh(acc) + erf(t) + sqrt(t)
    y4: f32 = rsqrt(t) * reciprocal(acc)
    y5: f32 = t ** c
    y6: f32 = sin(acc) * cos(c)
    y7: f32 = floor(t * 3.0) + ceil(acc * 3.0) + round(t * 2.5)
    y8: f32 = t // c
    y9: f32 = acc / t
    y10: f32 = fma(acc, t, c)
    y11: f32 = scaled(s, t) + min(max(acc, t), c)
    y12: bool = (t > c) | ~(acc >= t) & (t != acc)
    y13: f32 = where(t <= acc, -abs(t), acc)
    y14: e4m3 = cast(t * 7.0, e4m3, round=up)
    y15: e5m2 = cast(t, e5m2, round=stochastic(5))
    y16: f16 = cast(acc, f16, round=toward_zero)
    y17: s8 = cast(t * 50.0, s8, round=down)
    y18: bf16 = silu(acc) + gelu(t) + sigmoid(acc)
    y19: f32 = dgelu(acc) + softplus(t)
    y20: f32 = random(9, stream=2) + random(9)
    return y0, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17, y18, y19, y20
