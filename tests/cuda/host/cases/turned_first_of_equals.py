# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=131 n=200 k=8
# data: data=5 values=integers layout=0 seed=6
# schedule: turned pingpong 64x48x3 sub 16x2 aux 0 raster 2
# schedule: turned cooperative 128x64x3 sub 32x2 aux 0 raster 2
def epilogue(acc):
    y0: i64 = argmax(acc, axis=1)
    y1: i64 = argmin(acc, axis=1)
    y2: i64 = argmax(acc, axis=0)
    y3: i64 = argmin(acc, axis=0)
    y4: i64 = argmax(acc)
    return y0, y1, y2, y3, y4
