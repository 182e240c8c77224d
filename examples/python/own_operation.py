"""# An operation of one's own

`@post.function` makes one, from primitives or with code of its own. From primitives it needs nothing else. With code it
is one node of the graph: its Python function is the definition in numpy, the CUDA text is what a GPU runs, the
derivative is written in the language, `ulps` says how far the codes may be apart, and `plan.verify` checks that.
"""
import numpy as np

import postlude as post


@post.function
def squared_relu(x):
    """max(x, 0) ** 2."""
    return post.max(x, 0) ** 2


@post.function(cuda="x0 / (1.0f + __expf(-p0 * x0))", ulps=16,
               derivative="sigmoid(beta * x) * (1 + beta * x * (1 - sigmoid(beta * x)))")
def swish(x, beta=1.0):
    """x * sigmoid(beta * x)."""
    return x / (1 + np.exp(-beta * x))


@post.epilogue
def mixed(acc, bias: post.row):
    z = acc + bias
    return swish(z, 1.702) + 0.1 * squared_relu(z)


rng = np.random.default_rng(0)
a, b = rng.standard_normal((64, 32)).astype(np.float32), rng.standard_normal((32, 96)).astype(np.float32)
bias = rng.standard_normal(96).astype(np.float32)

d = post.matmul(a, b, epilogue=mixed, bias=bias)
z = a.astype(np.float64) @ b + bias
assert abs(d - (z / (1 + np.exp(-1.702 * z)) + 0.1 * np.maximum(z, 0) ** 2)).max() < 1e-3

comparison, = post.plan(a, b, epilogue=mixed).verify(a, b, bias=bias)
assert comparison.error_over_bound <= 1
print(mixed.graph)
print(comparison)
