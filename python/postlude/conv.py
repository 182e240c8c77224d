"""post.conv2d: an epilogue over a convolution, in torch's shapes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _core
from .epilogue import Epilogue
from .errors import error
from .numeric import is_torch
from .run import _epilogue, _target

_TILE, _COL = 6, 2  # axes of an operand or output: a sum of 2 (over the pixels) and 4 (over the filters)


def _pair(given: Any, what: str) -> tuple[int, int]:
    if isinstance(given, (tuple, list)):
        if len(given) == 2 and all(hasattr(one, "__index__") for one in given):
            return given[0], given[1]
    elif hasattr(given, "__index__"):
        return given, given
    raise error("usage", f"{what}={given!r}", f"Pass a number, or one for rows and one for columns: {what}=(2, 1).")


def _padding(given: Any, image: Sequence[int], filters: Sequence[int], stride: Sequence[int],
             dilation: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """((before, after the rows), (before, after the columns))."""
    if given == "same":
        whole = [max((-(-size // step) - 1) * step + reach * (taps - 1) + 1 - size, 0) if step > 0 else 0
                 for size, taps, step, reach in zip(image, filters, stride, dilation)]
        return (whole[0] // 2, whole[0] - whole[0] // 2), (whole[1] // 2, whole[1] - whole[1] // 2)
    if isinstance(given, (tuple, list)) and any(isinstance(one, (tuple, list)) for one in given):
        if len(given) == 2 and all(isinstance(one, (tuple, list)) for one in given):
            return _pair(given[0], "padding"), _pair(given[1], "padding")
        raise error("usage", f"padding={given!r}", "Pass ((before, after the rows), (before, after the columns)).")
    rows, columns = _pair(given, "padding")
    return (rows, rows), (columns, columns)


def _permuted(x: Any, *order: int) -> Any:
    return x.permute(order) if is_torch(x) else x.transpose(order)


def _address(x: Any) -> Any:
    return x.data_ptr() if is_torch(x) else x.__array_interface__["data"][0]


def _in_lines(x: Any, axes: int | None, what: str = "") -> Any:
    """A tile (N, K, P, Q) as (N, P Q, K), a col (N, P, Q) as (N, P Q). `what` is written: it must be a view."""
    rank = getattr(x, "ndim", 0)
    if rank == 4 and axes in (None, _TILE):
        n, k, p, q = x.shape
        lines = _permuted(x, 0, 2, 3, 1).reshape(n, p * q, k)
    elif rank == 3 and axes == _COL:
        n, p, q = x.shape
        lines = x.reshape(n, p * q)
    else:
        return x
    if what and _address(lines) != _address(x):
        raise error("wrong_stride", f"the rows of {what} do not lie one behind the other", "Pass an array that is contiguous, or in channels_last.")
    return lines


def _in_images(x: Any, axes: int, p: int, q: int) -> Any:
    """The inverse, of an output."""
    if not axes & _COL or x.shape[1] != p * q:
        return x
    image = x.reshape((x.shape[0], p, q, *x.shape[2:]))
    return _permuted(image, 0, 3, 1, 2) if axes == _TILE else image


def conv2d(x: Any, w: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, epilogue: Epilogue | None = None,
           out: Any = None, target: Any = None, **operands: Any) -> Any:
    """epilogue(conv2d(x, w), **operands), computed in one pass.

    x is (N, C, H, W) in any strides, w is (K, C, R, S); both are fastest in channels_last. The epilogue's b is the image, its m
    the pixel p * Q + q, its n the filter: a row is (K,) or (N, K), a tile (N, K, P, Q), a col (N, P, Q), annotated post.col;
    axis=0 reduces over an image's pixels, batch=True over all images too. Outputs have these shapes, tiles in channels_last.
    stride, dilation: a number, or one for rows and one for columns. padding: the same, or ((before, after), (before, after)),
    or "same": as many pixels as the image has, divided by the stride and rounded up, with the odd zero behind.
    out: arrays to write instead, in these shapes, as post.matmul's.
    """
    if getattr(x, "ndim", 0) != 4 or getattr(w, "ndim", 0) != 4:
        raise error("wrong_rank", f"x has {getattr(x, 'ndim', 0)} axes and w {getattr(w, 'ndim', 0)}",
                    "x is (N, C, H, W), w is (K, C, R, S).")
    steps, reach = _pair(stride, "stride"), _pair(dilation, "dilation")
    zeros = _padding(padding, x.shape[2:], w.shape[2:], steps, reach)
    loop = _core.conv2d(steps, zeros, reach)
    chosen = _epilogue(epilogue)
    declared = {operand.name: operand.axes for operand in chosen.operands}
    given = {name: _in_lines(value, declared.get(name)) for name, value in operands.items()}
    ranks = [getattr(given.get(operand.name, operand.default), "ndim", None) for operand in chosen.operands]
    graph, record = chosen._traced(chosen.axes_at(ranks, True))
    axes = {name: bits & _TILE for (name, *_), bits in zip(graph.outputs, graph.output_axes())}

    def written(array: Any, name: str) -> Any:
        return _in_lines(array, axes.get(name), f"out= of {name!r}")

    if isinstance(out, dict):
        out = {name: written(array, name) for name, array in out.items()}
    elif isinstance(out, (tuple, list)):
        out = tuple(written(array, name) for array, name in zip(out, [*axes, *[""] * len(out)]))
    elif out is not None:
        out = written(out, next(iter(axes)))
    result = chosen._launcher(loop, _target(target))((x, w), given, out)
    p, q = ((size + sum(around) - far * (taps - 1) - 1) // step + 1
            for size, around, far, taps, step in zip(x.shape[2:], zeros, reach, w.shape[2:], steps))
    images = [_in_images(value, bits, p, q) for value, bits in zip(result if record else (result,), axes.values())]
    return type(result)(*images) if record else images[0]
