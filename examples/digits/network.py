"""A classifier of handwritten digits, 64 -> hidden -> 10, as the epilogues of its six products.

The same file is read by examples/digits/digits.cpp and by `postlude run examples/digits/network.py:hidden ...`.
"""
import postlude as post


@post.epilogue
def hidden(acc, b1: post.row):
    """Forward, first layer: acc = X W1. z is kept for the backward pass."""
    z = acc + b1
    h = post.gelu(z)
    return h, z


@post.epilogue
def output(acc, b2: post.row, label: post.col[post.i64], share: post.scalar):
    """Forward and the start of backward, last layer: acc = H W2. The logits themselves are never stored."""
    logits = acc + b2
    log_total = post.logsumexp(logits, axis=1)
    hit = post.n_index() == label
    loss = log_total - post.sum(post.where(hit, logits, 0.0), axis=1)
    predicted = post.argmax(logits, axis=1)
    dlogits = (post.exp(logits - log_total) - post.where(hit, 1.0, 0.0)) * share
    db2 = post.sum(dlogits, axis=0)
    return dlogits, db2, loss, predicted


@post.epilogue
def hidden_gradient(acc, z: post.tile):
    """Backward, through gelu: acc = dlogits W2'."""
    dz = acc * post.dgelu(z)
    db1 = post.sum(dz, axis=0)
    return dz, db1


@post.epilogue
def step(acc, w: post.tile, v: post.tile, rate: post.scalar, momentum: post.scalar):
    """Gradient and optimiser in one: acc = X' dz is the gradient of w, which is updated in place."""
    v_next = momentum * v + acc
    w_next = w - rate * v_next
    return w_next, v_next
