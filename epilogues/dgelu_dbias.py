import postlude as post


@post.epilogue
def dgelu_dbias(acc, z: post.tile):
    """The backward pass of bias and gelu: the gradient of z, and its sum over M, the bias's gradient."""
    dz = acc * post.dgelu(z)
    dbias = post.sum(dz, axis=0)
    return dz, dbias
