# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=20 n=150 k=3
# data: data=5 values=integers layout=0 seed=6
def epilogue(acc):
    y0: i64 = argmax(acc, axis=1)
    y1: i64 = argmin(acc, axis=1)
    y2: i64 = argmax(acc, axis=0)
    return y0, y1, y2
