import postlude as post


@post.epilogue
def swiglu(acc):
    """silu of the left half of the columns times the right half; N / 2 columns."""
    gate, up = post.chunk(acc, 2)
    return post.silu(gate) * up
