import postlude as post


@post.epilogue
def fp8_rowwise(acc, sa: post.col[post.f32], sb: post.row[post.f32]):
    """The product of two scaled fp8 matrices, one scale a row of A and one a column of B."""
    D: post.bf16 = acc * sa * sb
    return D
