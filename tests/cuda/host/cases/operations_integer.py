# problem: kind=gemm a=f32 b=f32 batched=1
# shape: batch=2 m=21 n=48 k=8
# data: data=12 values=integers layout=0 seed=4
def epilogue(acc, l: col[i64], r: row[i32], u: tile[u8]):
    i = n_index() - 20
    j = m_index() - 9
    k = l - 3 + batch_index()
    y0: i64 = i // j
    y1: i64 = k // (i * 2)
    y2: i64 = i - i // 7 * 7
    y3: i32 = fma(i, j, r) + -abs(j)
    y4: i64 = min(max(k, i), j) * 1000000007
    y5: i32 = i & j | ~r
    y6: f32 = i / j
    y7: i32 = cast(acc * 0.5, i32, round=up)
    y8: i64 = where(k == i, k, l)
    y9: u8 = u + i
    y10: s8 = cast(i * j, s8)
    y11: bool = cast(u, bool) & (k < i)
    y12: i64 = sum(i * j, axis=1)
    y13: i64 = argmin(u - 100, axis=0)
    y14: f32 = prod(cast(j, f32) * 0.25, axis=0)
    y15: bool = all(u > 0, axis=1)
    y16: i32 = max(u + i)
    y17: f32 = var(acc + i, axis=1) + logsumexp(acc, axis=1)
    y18: i64 = sum(k, axis=0, group=4)
    return y0, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15, y16, y17, y18
