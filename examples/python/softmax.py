"""# Softmax and layer normalisation: epilogues that need whole rows

A reduction's result is a value like any other: `total` below is one number a row, and dividing by it is one more
operation. That the row must be complete first is the planner's business: `plan.phases()` shows where it cut.
"""
import numpy as np

import postlude as post


@post.epilogue
def softmax(acc):
    e = post.exp(acc - post.max(acc, axis=1))
    return e / post.sum(e, axis=1)


@post.epilogue
def layernorm(acc, gamma: post.row, beta: post.row):
    centred = acc - post.mean(acc, axis=1)
    return centred * post.rsqrt(post.var(acc, axis=1) + 1e-5) * gamma + beta


rng = np.random.default_rng(0)
a, b = rng.standard_normal((100, 64)).astype(np.float32), rng.standard_normal((64, 200)).astype(np.float32)
gamma, beta = rng.standard_normal((2, 200)).astype(np.float32)

p = post.matmul(a, b, epilogue=softmax)
assert abs(p.sum(axis=1) - 1).max() < 1e-5
acc = a.astype(np.float64) @ b
assert abs(p - np.exp(acc - acc.max(1, keepdims=True)) / np.exp(acc - acc.max(1, keepdims=True)).sum(1, keepdims=True)).max() < 1e-5

y = post.matmul(a, b, epilogue=layernorm, gamma=gamma, beta=beta)
reference = (acc - acc.mean(1, keepdims=True)) / np.sqrt(acc.var(1, keepdims=True) + 1e-5) * gamma + beta
assert abs(y - reference).max() < 1e-3

for number, phase in enumerate(post.plan(a, b, epilogue=softmax).phases(), start=1):
    print(f"phase {number} over {phase.domain}: {', '.join(phase.reductions) or 'no reduction'};"
          f" writes {', '.join(phase.stores) or 'statistics only'}")
