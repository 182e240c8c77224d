import postlude as post


@post.epilogue
def rmsnorm(acc, residual: post.tile, gamma: post.row):
    """Root mean square normalisation of each row of acc + residual."""
    x = post.cast(acc, post.bf16) + residual
    return x * post.rsqrt(post.mean(x * x, axis=1) + 1e-6) * gamma
