"""The same network with one pass for each operation, as a framework without fusion runs it: the peer of network.py.

Every epilogue but `plain` runs over a tensor that is already in memory (`--stream`).
"""
import postlude as post


@post.epilogue
def plain(acc):
    return acc


@post.epilogue
def add_row(acc, bias: post.row):
    return acc + bias


@post.epilogue
def gelu(acc):
    return post.gelu(acc)


@post.epilogue
def logsumexp(acc):
    total = post.logsumexp(acc, axis=1)
    return total


@post.epilogue
def cross_entropy(acc, total: post.col, label: post.col[post.i64]):
    loss = total - post.sum(post.where(post.n_index() == label, acc, 0.0), axis=1)
    return loss


@post.epilogue
def argmax(acc):
    predicted = post.argmax(acc, axis=1)
    return predicted


@post.epilogue
def cross_entropy_gradient(acc, total: post.col, label: post.col[post.i64], share: post.scalar):
    return (post.exp(acc - total) - post.where(post.n_index() == label, 1.0, 0.0)) * share


@post.epilogue
def column_sum(acc):
    total = post.sum(acc, axis=0)
    return total


@post.epilogue
def gelu_gradient(acc, z: post.tile):
    return acc * post.dgelu(z)


@post.epilogue
def accumulate(acc, v: post.tile, momentum: post.scalar):
    return momentum * v + acc


@post.epilogue
def descend(acc, v: post.tile, rate: post.scalar):
    return acc - rate * v
