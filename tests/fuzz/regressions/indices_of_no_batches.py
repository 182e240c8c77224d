# problem: kind=gemm a=f32 b=f32 batched=1
# shape: batch=0 m=0 n=256 k=0
# data: data=12327782338407775530 values=normal layout=8259037673142365631 seed=30228
def epilogue(acc, x0: scalar[f32]):
    v0 = any(acc)
    v1 = cast(v0, i32, round=up)
    v2 = v1 + n_index()
    v3 = v2 == 100.0
    y1: f32 = max(floor(ceil(fma(cast(v0, f16), v1, v0))) * where(v3, v3, 2.0), v3)
    y0: f32 = (scaled(x0 * 0.0, x0) > 0.0) | v2
    y2: i64 = n_index()
    return y0, y1, y2
