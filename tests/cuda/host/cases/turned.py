# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=203 n=328 k=264
# data: data=16 values=normal layout=0 seed=41
# schedule: turned pingpong 128x96x4 sub 32x2 aux 2 raster 12
# schedule: turned cooperative 128x128x3 sub 64x2 aux 1 raster 2
# schedule: turned pingpong 192x64x3 sub 32x2 aux 2 raster 3 split 2 by memory
# schedule: turned pingpong 128x144x3 sub 48x2 aux 2 raster 2
# schedule: turned cooperative 128x208x3 sub 16x4 aux 4 raster 12
# schedule: turned pingpong 192x112x3 sub 16x2 aux 2 raster 1
# schedule: turned pingpong 64x96x3 sub 32x2 aux 2 raster 2 cluster 2x1
def epilogue(acc, bias: row[f32], scale: col[f32], r: tile[bf16]):
    x = acc * scale + bias
    y = where(n_index() <= m_index() + 9, gelu(x) + r, r)
    D: bf16 = y
    E: bf16 = x * 0.5
    return D, E
