def f(acc: f32, r: row[bf16], c: col, s: scalar[i32]):
    D: e4m3 = cast(acc + r * c, e4m3, round=stochastic(7)) + s
    return D
