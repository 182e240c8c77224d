# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=150 n=1248 k=72
# data: data=9 values=normal layout=3 seed=10
# schedule: pingpong 64x256x3 sub 32x2 aux 0 raster 1
# schedule: mma 128x128x3 sub 32x1 aux 0 raster 1
def epilogue(acc, c: tile[f32]):
    i, f, g, o = chunk(acc, 4)
    cell = sigmoid(f) * c + sigmoid(i) * tanh(g)
    C: f32 = cell
    H: bf16 = sigmoid(o) * tanh(cell)
    return C, H
