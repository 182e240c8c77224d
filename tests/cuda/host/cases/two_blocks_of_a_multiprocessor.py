# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=330 n=328 k=136
# data: data=16 values=normal layout=0 seed=41
# schedule: pingpong 64x64x3 sub 32x2 aux 1 raster 2 occupancy 2
# schedule: pingpong 64x64x3 sub 64x2 aux 1 raster 1 occupancy 2
# schedule: cooperative 128x64x3 sub 32x2 aux 1 raster 3 occupancy 2
def epilogue(acc, bias: row[f32], z: tile[bf16]):
    D: bf16 = gelu(acc + bias) + z
    rows: f32 = sum(D * D, axis=1)
    columns: f32 = max(D, axis=0)
    return D, rows, columns
