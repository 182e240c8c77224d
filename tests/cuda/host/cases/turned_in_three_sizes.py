# problem: kind=gemm a=f16 b=f16 batched=1
# shape: batch=2 m=149 n=208 k=72
# data: data=11 values=normal layout=0 seed=12
# schedule: turned pingpong 128x80x3 sub 16x2 aux 2 raster 2
# schedule: turned cooperative 128x96x2 sub 32x2 aux 1 raster 2
# schedule: turned pingpong 64x64x2 sub 64x2 aux 1 raster 2 split 2
# schedule: turned pingpong 128x96x2 sub 48x2 aux 1 raster 1
# schedule: turned pingpong 128x88x2 sub 16x2 aux 1 raster 1
def epilogue(acc, keep: tile[bool], c: tile[f32], q: tile[s8], scale: row[f32]):
    x = where(keep, acc * scale, c) + q
    D: f32 = x
    E: s8 = x * 8
    F: f16 = x - c
    G: e4m3 = silu(x)
    return D, E, F, G
