import postlude as post


@post.epilogue
def axpby(acc, C: post.tile, alpha: post.scalar, beta: post.scalar):
    """alpha * acc + beta * C, as BLAS has it: where beta is 0, C is not read."""
    return alpha * acc + post.scaled(beta, C)
