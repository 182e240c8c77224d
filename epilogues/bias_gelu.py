import postlude as post


@post.epilogue
def bias_gelu(acc, bias: post.row):
    """gelu(acc + bias), with one bias a column."""
    return post.gelu(acc + bias)
