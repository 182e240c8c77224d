# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=90 n=136 k=64
# data: data=11 values=special layout=0 seed=1
# schedule: pingpong 64x128x5 sub 32x2 aux 0 raster 2
# schedule: cooperative 128x64x4 sub 32x2 aux 0 raster 2
def epilogue(acc):
    first: i64 = argmax(acc, axis=1)
    least: i64 = argmin(acc, axis=1)
    held: i64 = argmax(where(m_index() % 3 == 0, -inf, acc), axis=1)
    of_zeros: i64 = argmax(where(acc > 0, 0.0, -0.0), axis=1, group=32)
    most: f32 = max(acc, axis=1, group=32)
    return first, least, held, of_zeros, most
