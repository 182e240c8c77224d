# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=149 n=304 k=72
# data: data=17 values=normal layout=386632 seed=42
# schedule: turned pingpong 128x96x4 sub 32x2 aux 0 raster 12
# schedule: turned cooperative 256x48x3 sub 16x2 aux 0 raster 2
# schedule: turned pingpong 128x64x3 sub 64x2 aux 0 raster 3 split 2 by memory
# schedule: turned pingpong 128x112x2 sub 16x2 aux 0 raster 1 looped
def epilogue(acc, bias: row[f32]):
    x = acc + bias
    gate, up = chunk(x, 2)
    y = where(random(seed=1) < 0.75, gelu(gate) * up / 0.75, 0)
    D: bf16 = y
    H: bf16 = acc
    s: f32 = sum(y, axis=0)
    v: f32 = var(y, axis=1)
    i: i64 = argmax(y, axis=1)
    top: f32 = max(abs(x), axis=1)
    all: f32 = sum(y)
    return D, H, s, v, i, top, all
