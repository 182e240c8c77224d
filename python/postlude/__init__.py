"""Postlude: write what happens after the matmul as math; get one kernel.

    import postlude as post

    @post.epilogue
    def bias_gelu(acc, bias: post.row, residual: post.tile):
        d = post.gelu(acc + bias) + residual
        return {"D": d, "amax": post.max(abs(d), axis=1)}

    out = post.matmul(a, b, epilogue=bias_gelu, bias=bias, residual=r)   # out.D, out.amax
"""
from typing import TYPE_CHECKING as _TYPE_CHECKING

# `x as x` says to type checkers that x is this package's to use.
from ._core import (
    Call as Call, Comparison as Comparison, Graph as Graph, PackedOperand as PackedOperand, Plan as Plan,
    Target as Target,
)
from ._core import version as __version__
from .conv import (
    Conv as Conv, ConvDgrad as ConvDgrad, ConvWgrad as ConvWgrad, conv1d as conv1d, conv2d as conv2d, conv3d as conv3d,
    conv_dgrad as conv_dgrad, conv_wgrad as conv_wgrad,
)
from .doctor import doctor as doctor
from .dtypes import *  # noqa: F403
from .epilogue import Epilogue as Epilogue, epilogue as epilogue, load as load, parse as parse
from .errors import (
    Error as Error, FileError as FileError, GraphError as GraphError, InternalError as InternalError,
    MachineError as MachineError, OperandError as OperandError, TextError as TextError,
    UnsupportedError as UnsupportedError, UsageError as UsageError,
)
from .functions import function as function
from .numeric import pixels as pixels
from .ops import *  # noqa: F403
from .run import matmul as matmul, plan as plan, stream as stream, supports as supports
from .values import NDArray as NDArray, Value as Value, col as col, row as row, scalar as scalar, tile as tile
from .visit_tree import EpilogueVisitTree as EpilogueVisitTree

if not _TYPE_CHECKING:  # to a type checker a module with this has every name
    def __getattr__(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module 'postlude' has no attribute {name!r}")
        from . import _core
        from ._public import public
        from .errors import missing_attribute
        if name in ("float64", "double", "f64"):
            raise missing_attribute("undefined_name", f"postlude has no {name!r}", "f32 is the widest float: post.f32.")
        if name.isascii() and (dtype := _core.parse_dtype(name)) is not None:
            raise missing_attribute("undefined_name", f"postlude has no {name!r}", f"Write post.{dtype.name}.")
        guess = _core.closest(name, [*public, *(other for other in globals() if not other.startswith("_"))])
        raise missing_attribute("undefined_name", f"postlude has no {_core.quoted(name)}", _core.synonym(name) or (
            f"Did you mean '{guess}'?" if guess else "help(post.ops) lists those there are; @post.function adds one."))
