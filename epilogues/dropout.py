import postlude as post


@post.epilogue
def dropout(acc):
    """Drops one element in ten and scales the others, by a mask that the gradient can draw again."""
    return post.where(post.random(seed=1) < 0.9, acc / 0.9, 0)
