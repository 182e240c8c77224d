import postlude as post


@post.epilogue
def qk_norm_rope(acc, weight: post.row, cos: post.tile, sin: post.tile):
    """Queries or keys: RMSNorm of each head of 128 columns, then its rotary embedding (as rope.py)."""
    scale = post.rsqrt(post.mean(acc * acc, axis=1, group=128) + 1e-6)
    a, b = post.chunk(acc * post.repeat(scale, 128) * weight, 2, group=128)
    return post.concat((a * cos - b * sin, b * cos + a * sin), group=128)
