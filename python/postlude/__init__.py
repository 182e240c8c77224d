"""Postlude: write what happens after the matmul as math; get one kernel.

    import postlude as post

    @post.epilogue
    def bias_gelu(acc, bias: post.row, residual: post.tile):
        d = post.gelu(acc + bias) + residual
        return {"D": d, "amax": post.max(abs(d), axis=1)}

    out = post.matmul(a, b, epilogue=bias_gelu, bias=bias, residual=r)   # out.D, out.amax
"""
from ._core import Call, Comparison, Graph, PackedOperand, Plan, Target
from ._core import version as __version__
from .doctor import doctor
from .dtypes import *  # noqa: F403
from .epilogue import Epilogue, epilogue, load, parse
from .errors import (Error, FileError, GraphError, InternalError, MachineError, OperandError, TextError, UnsupportedError,
                     UsageError)
from .functions import function
from .ops import *  # noqa: F403
from .run import matmul, plan, stream, supports
from .values import NDArray, Value, col, row, scalar, tile
