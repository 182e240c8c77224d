# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=203 n=336 k=136
# data: data=16 values=normal layout=826673 seed=41
# schedule: turned pingpong 128x96x4 sub 32x2 aux 2 raster 12
# schedule: turned cooperative 256x64x3 sub 64x2 aux 1 raster 2
# schedule: turned pingpong 128x64x3 sub 32x2 aux 2 raster 3 split 2 by memory
# schedule: turned pingpong 128x144x3 sub 48x2 aux 2 raster 2
# schedule: turned pingpong 128x104x3 sub 16x2 aux 2 raster 2
# schedule: turned pingpong 128x56x3 sub 32x2 aux 2 raster 2 split 2
# schedule: turned cooperative 256x88x2 sub 16x2 aux 1 raster 2 split 2 by memory
# schedule: turned abreast 128x112x3 sub 16x2 aux 2 raster 2
# schedule: turned pingpong 128x96x3 sub 32x2 aux 2 raster 2 cluster 2x1
# schedule: turned pingpong 128x32x3 sub 32x2 aux 2 raster 2 looped
def epilogue(acc, bias: row[f32], scale: col[f32], r: tile[bf16]):
    gate, up = chunk(acc * scale + bias, 2)
    y = where(n_index() <= m_index() + 9, silu(gate) * up + r, r)
    D: bf16 = y
    E: bf16 = gate
    return D, E
