import postlude as post


@post.epilogue
def rope(acc, cos: post.tile, sin: post.tile):
    """Rotary embedding: the halves of each head of 128 columns, turned by an angle that cos and sin (M x N / 2) hold."""
    a, b = post.chunk(acc, 2, group=128)
    return post.concat((a * cos - b * sin, b * cos + a * sin), group=128)
