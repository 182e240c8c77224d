import postlude as post


@post.epilogue
def bias_relu(acc, bias: post.row):
    """relu(acc + bias), with one bias a column."""
    return post.relu(acc + bias)
