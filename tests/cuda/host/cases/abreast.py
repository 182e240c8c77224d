# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=203 n=328 k=264
# data: data=16 values=normal layout=1044475 seed=41
# schedule: abreast 192x192x3 sub 32x2 aux 2 raster 12
# schedule: abreast 128x320x3 sub 32x2 aux 1 raster 2
# schedule: abreast 64x128x3 sub 64x2 aux 4 raster 2 split 2
# schedule: abreast 192x128x3 sub 64x2 aux 2 raster 3 split 2 by memory
# schedule: abreast 64x256x3 sub 32x2 aux 2 raster 2 cluster 2x1
# schedule: abreast 128x192x3 sub 32x2 aux 2 raster 2 cluster 1x2
# schedule: turned abreast 192x160x3 sub 16x2 aux 2 raster 2
# schedule: turned abreast 128x288x2 sub 48x2 aux 2 raster 2
# schedule: turned abreast 64x224x3 sub 16x2 aux 2 raster 2 cluster 2x1
# schedule: turned abreast 128x96x3 sub 48x2 aux 2 raster 2 split 2 by memory
def epilogue(acc, bias: row[f32], scale: col[f32], r: tile[bf16]):
    x = acc * scale + bias
    y = where(n_index() <= m_index() + 9, gelu(x) + r, r)
    D: bf16 = y
    E: bf16 = x * 0.5
    return D, E
