import postlude as post


@post.epilogue
def rowmax(acc, bias: post.row):
    """acc + bias, and the largest magnitude of each row, from which a scale is made."""
    D = acc + bias
    amax = post.max(abs(D), axis=1)
    return D, amax
