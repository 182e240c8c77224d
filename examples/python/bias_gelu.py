"""# Bias, GELU, a residual and a statistic, in one pass

The first epilogue that anybody writes: what a transformer's feed-forward layer does after its first product. The
function says it as math; `post.matmul` computes it while the product's tiles are still in the cache, so that the
product itself is never stored.
"""
import numpy as np

import postlude as post


@post.epilogue
def bias_gelu(acc, bias: post.row, residual: post.tile):
    d = post.gelu(acc + bias) + residual
    return {"D": d, "amax": post.max(abs(d), axis=1)}


rng = np.random.default_rng(0)
a = rng.standard_normal((512, 256)).astype(np.float32)
weight = (rng.standard_normal((384, 256)) / 16).astype(np.float32)  # stored as torch's Linear does: outputs x inputs
bias = rng.standard_normal(384).astype(np.float32)
residual = rng.standard_normal((512, 384)).astype(np.float32)

# weight.T is a view: nothing is copied.
out = post.matmul(a, weight.T, epilogue=bias_gelu, bias=bias, residual=residual)

# The decorated function still is a function: on plain arrays it is its own reference.
reference = bias_gelu(a.astype(np.float64) @ weight.T, bias, residual)
error = abs(out.D - reference.D).max()
assert error < 1e-4 and abs(out.amax - reference.amax).max() < 1e-4

# Called often with the same arrays, a plan is bound once: nothing is looked up, checked or allocated again.
call = post.plan(a, weight.T, epilogue=bias_gelu).bind(a, weight.T, bias=bias, residual=residual)
assert np.array_equal(call().D, out.D)

print(f"{out.D.shape[0]} x {out.D.shape[1]}, largest difference from float64: {error:.1e}")
print(bias_gelu.graph)
