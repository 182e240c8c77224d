# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=77 n=352 k=200
# data: data=9 values=normal layout=811531 seed=10
# schedule: turned pingpong 256x48x3 sub 16x2 aux 0 raster 2
# schedule: turned pingpong 256x96x2 sub 32x2 aux 0 raster 1 split 2 by memory in shares
def epilogue(acc):
    a, b, c, d = chunk(acc, 4)
    D: bf16 = a * sigmoid(b) + c * tanh(d)
    s: f32 = max(abs(acc), axis=1)
    return D, s
