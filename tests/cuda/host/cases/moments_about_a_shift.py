# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=152 n=328 k=72
# data: data=9 values=normal layout=0 seed=10
def epilogue(acc, of_rows: col[f32], of_columns: row[f32]):
    x = acc + of_rows * 3000
    y0: f32 = mean(x, axis=1)
    y1: f32 = var(x, axis=1)
    z = acc + of_columns * 3000
    y2: f32 = mean(z, axis=0)
    y3: f32 = var(z, axis=0)
    first = where((m_index() == 0) | (n_index() == 0), 3000, acc)
    y4: f32 = var(first, axis=0)
    y5: f32 = var(first, axis=1)
    y6: f32 = mean(first)
    y7: f32 = var(first)
    return y0, y1, y2, y3, y4, y5, y6, y7
