# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=203 n=328 k=264
# data: data=16 values=normal layout=1044475 seed=41
# schedule: turned pingpong 128x104x3 sub 16x2 aux 2 raster 12
# schedule: turned pingpong 64x136x3 sub 48x2 aux 1 raster 2
# schedule: turned cooperative 128x200x3 sub 16x4 aux 2 raster 3 split 2 by memory
# schedule: turned pingpong 192x88x3 sub 32x2 aux 2 raster 2 split 2
# schedule: turned cooperative 256x56x3 sub 64x2 aux 1 raster 2
# schedule: turned abreast 192x176x3 sub 16x2 aux 2 raster 2
# schedule: turned abreast 128x240x3 sub 64x2 aux 1 raster 2 cluster 2x1
# schedule: turned pingpong 64x72x3 sub 16x2 aux 2 raster 2 cluster 1x2
def epilogue(acc, bias: row[f32], scale: col[f32], r: tile[bf16]):
    x = acc * scale + bias
    y = where(n_index() <= m_index() + 9, gelu(x) + r, r)
    D: bf16 = y
    E: bf16 = x * 0.5
    return D, E
