"""# SwiGLU: one weight, two halves, half the output

The gate and the up projection of a SwiGLU layer are one product whose columns are split in two. `post.chunk` says so;
the output has half the columns, and neither half is stored. With `group=2` the two would alternate column by column,
which is how a weight can be laid out so that gate and up of one output lie side by side.
"""
import numpy as np

import postlude as post


@post.epilogue
def swiglu(acc):
    gate, up = post.chunk(acc, 2)
    return post.silu(gate) * up


@post.epilogue
def swiglu_interleaved(acc):
    gate, up = post.chunk(acc, 2, group=2)
    return post.silu(gate) * up


rng = np.random.default_rng(0)
x = rng.standard_normal((64, 128)).astype(np.float32)
gate_weight, up_weight = (rng.standard_normal((2, 128, 192)) / 11).astype(np.float32)

halves = post.matmul(x, np.concatenate([gate_weight, up_weight], axis=1), epilogue=swiglu)
interleaved = post.matmul(x, np.stack([gate_weight, up_weight], axis=2).reshape(128, 384), epilogue=swiglu_interleaved)

gate, up = x.astype(np.float64) @ gate_weight, x.astype(np.float64) @ up_weight
reference = gate / (1 + np.exp(-gate)) * up
assert halves.shape == (64, 192)
assert abs(halves - reference).max() < 1e-4 and abs(interleaved - reference).max() < 1e-4
print(f"384 columns in, {halves.shape[1]} out; largest difference {abs(halves - reference).max():.1e}")
