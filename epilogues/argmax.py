import postlude as post


@post.epilogue
def argmax(acc):
    """The column of the largest of each row, the first of equals, and nothing else."""
    index = post.argmax(acc, axis=1)
    return index
