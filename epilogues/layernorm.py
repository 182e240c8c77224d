import postlude as post


@post.epilogue
def layernorm(acc, gamma: post.row, beta: post.row):
    """Layer normalisation of each row."""
    x = post.cast(acc, post.bf16)
    y = (x - post.mean(x, axis=1)) * post.rsqrt(post.var(x, axis=1) + 1e-5)
    return y * gamma + beta
