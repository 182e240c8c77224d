# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=456 k=200
# data: data=9 values=normal layout=213048 seed=10
# schedule: turned pingpong 192x48x3 sub 16x2 aux 1 raster 2
# schedule: turned pingpong 192x96x2 sub 32x2 aux 1 raster 1 split 2
def epilogue(acc, r: tile[bf16]):
    a, b, c = chunk(acc, 3)
    D: bf16 = a * sigmoid(b) + c * r
    return D
