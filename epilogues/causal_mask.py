import postlude as post


@post.epilogue
def causal_mask(acc):
    """What follows the diagonal becomes -inf, so that softmax over a row sees the past only."""
    return post.where(post.n_index() <= post.m_index(), acc, -post.inf)
