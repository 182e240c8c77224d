import postlude as post


@post.epilogue
def plain(acc):
    """The product itself."""
    return acc
