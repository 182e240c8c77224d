"""# Causal mask, softmax and dropout on attention scores

`post.m_index()` and `post.n_index()` are the row and column of an element: a mask is a comparison. `post.random` is
dropout's coin, drawn again by whoever has the seed, so that no mask is stored for the backward pass. A batch axis in
front is the heads.
"""
import numpy as np

import postlude as post


@post.epilogue
def scores(acc, scale: post.scalar):
    past = post.n_index() <= post.m_index()
    masked = post.where(past, acc * scale, -post.inf)
    e = post.exp(masked - post.max(masked, axis=1))
    p = e / post.sum(e, axis=1)
    kept = post.random(seed=7) < 0.9
    D = post.where(kept, p / 0.9, 0.0)
    return D


rng = np.random.default_rng(0)
heads, tokens, width = 4, 48, 16
q, k = rng.standard_normal((2, heads, tokens, width)).astype(np.float32)

d = post.matmul(q, k.swapaxes(1, 2), epilogue=scores, scale=width ** -0.5)

# The function itself on plain arrays, with the same coins.
reference = scores(q.astype(np.float64) @ k.swapaxes(1, 2), width ** -0.5)
assert d.shape == (heads, tokens, tokens)
assert abs(d - reference).max() < 1e-5
assert not np.triu(d[0], 1).any()
dropped = (d == 0)[:, np.tril_indices(tokens)[0], np.tril_indices(tokens)[1]].mean()
print(f"{heads} heads; nothing above the diagonal; {dropped:.1%} of the scores below it dropped")
