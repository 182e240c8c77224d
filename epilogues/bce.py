import postlude as post


@post.epilogue
def bce(acc, bias: post.row, label: post.tile):
    """Binary cross entropy with logits acc + bias, its sum over all elements and nothing else."""
    f = acc + bias
    s = post.clamp(post.sigmoid(f), 0.001, 0.999)
    loss = -post.sum((label - 1) * f + post.log(s))
    return loss
