# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=77 n=512 k=200
# data: data=9 values=normal layout=0 seed=87
# schedule: by groups
# schedule: by groups pingpong 128x64x3 sub 32x2 aux 1 raster 2
# schedule: by groups pingpong 64x64x3 sub 64x2 aux 1 raster 1 cluster 1x2 meets
# schedule: by groups pingpong 64x64x3 sub 32x2 aux 1 raster 2 split 2 by memory
# schedule: by groups cooperative 128x128x2 sub 64x2 aux 1 raster 1 split 2 by memory
# schedule: by groups mma 64x64x3 sub 64x1 aux 1 raster 8
# schedule: by groups accumulator
def epilogue(acc, bias: row[bf16], sa: col[f32], r: tile[bf16]):
    x = acc * sa + bias + r
    scale: f32 = max(max(abs(x), axis=1, group=128), 0.0001) / 127
    D: s8 = x / repeat(scale, 128)
    return scale, D
