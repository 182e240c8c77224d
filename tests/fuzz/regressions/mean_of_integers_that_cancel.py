# problem: kind=gemm a=f32 b=f32 batched=0
# shape: batch=1 m=2 n=64 k=0
# data: data=8427724875360141289 values=special layout=0 seed=93028703
def epilogue(acc, x0: tile[i32]):
    y0: f32 = mean(x0, axis=0, group=3)
    return y0
