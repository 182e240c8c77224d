# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=200 n=600 k=136
# data: data=9 values=normal layout=0 seed=10
# schedule: pingpong 64x256x3 sub 64x2 aux 2 raster 2
# schedule: pingpong 64x256x3 sub 64x2 aux 4 raster 1
def epilogue(acc, bias: row[bf16], r: tile[bf16], label: col[i64]):
    x = acc + bias
    D: bf16 = x + r
    loss: f32 = logsumexp(x, axis=1) - sum(where(n_index() == label, x, 0), axis=1)
    weighted: f32 = sum(x * r, axis=0)
    return D, loss, weighted
