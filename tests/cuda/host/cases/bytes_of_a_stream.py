# problem: kind=stream a=e4m3 b=e4m3 batched=0
# shape: batch=1 m=5 n=264 k=0
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, w: tile[s8], keep: tile[bool], r: row[u8]):
    x = where(keep, acc * 3, w) + r
    y0: s8 = x
    y1: e5m2 = x / max(max(abs(x), axis=1), 0.0001)
    y2: bool = cast(x > 1, f32)
    return y0, y1, y2
