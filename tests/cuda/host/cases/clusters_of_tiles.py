# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=330 n=330 k=264
# data: data=16 values=normal layout=0 seed=41
# schedule: pingpong 64x64x4 sub 32x2 aux 0 raster 2 cluster 2x1
# schedule: pingpong 64x96x3 sub 32x2 aux 0 raster 1 cluster 1x2
# schedule: cooperative 128x128x3 sub 32x2 aux 0 raster 4 cluster 2x1
# schedule: pingpong 128x64x3 sub 32x2 aux 0 raster 2 cluster 2x1 split 3 by memory
def epilogue(acc, bias: row[f32]):
    D: bf16 = gelu(acc + bias)
    rows: f32 = sum(D * D, axis=1)
    columns: f32 = max(D, axis=0)
    return D, rows, columns
