# problem: kind=gemm a=bf16 b=bf16 batched=0
# shape: batch=1 m=300 n=328 k=264
# data: data=16 values=normal layout=0 seed=41
# schedule: pingpong 64x64x4 sub 32x2 aux 1 raster 2 cluster 2x1
# schedule: pingpong 64x192x3 sub 32x2 aux 1 raster 1 cluster 1x2
# schedule: cooperative 128x128x3 sub 32x2 aux 1 raster 4 cluster 2x1
# schedule: pingpong 128x64x3 sub 32x2 aux 1 raster 2 cluster 2x1 split 3 by memory
# schedule: pingpong 64x64x3 sub 32x2 aux 1 raster 2 cluster 1x2 split 2 by memory at end
def epilogue(acc, bias: row[f32], residual: tile[bf16]):
    D: bf16 = gelu(acc + bias) + residual
    rows: f32 = sum(D * D, axis=1)
    columns: f32 = max(D, axis=0)
    return D, rows, columns
