import postlude as post


@post.epilogue
def swiglu_grad(acc, z: post.tile):
    """The backward pass of swiglu: from the gradient of its result, that of its 2 N columns z."""
    gate, up = post.chunk(z, 2)
    dz = post.concat((acc * up * post.dsilu(gate), acc * post.silu(gate)))
    return dz
