# problem: kind=gemm a=bf16 b=bf16 batched=1
# shape: batch=2 m=77 n=200 k=72
# data: data=9 values=normal layout=0 seed=10
# schedule: turned pingpong 64x48x3 sub 16x2 aux 1 raster 2
# schedule: turned cooperative 128x80x2 sub 16x2 aux 1 raster 2
def epilogue(acc, z: tile[bf16], w: tile[f32]):
    x = where(random(seed=3) < 0.75, (acc + z) / 0.75, 0)
    y = (x - mean(x, axis=1)) * sum(w, axis=1)
    t: f32 = max(y, axis=0)
    D: bf16 = y - t
    q: f32 = sum(y, axis=1)
    c: f32 = sum(y - t)
    i: i64 = argmax(y - t, axis=1)
    return D, t, q, c, i
