"""post.conv1d, conv2d, conv3d and their gradients: an epilogue over a convolution, in torch's shapes."""
from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _core
from .epilogue import Epilogue
from .errors import error
from .numeric import is_torch
from .run import Support, _epilogue, _problem, _supported, _target

_TILE, _ROW, _COL = 6, 4, 2  # axes of an operand or output: a sum of 2 (over m) and 4 (over n)


def _numbers(given: Any, rank: int, what: str) -> tuple[int, ...]:
    """One number for each axis, from one for all or one each."""
    several = given if isinstance(given, (tuple, list)) else (given,) * rank
    try:
        if len(several) == rank:
            return tuple(operator.index(one) for one in several)
    except TypeError:
        pass
    raise error("usage", f"{what}={given!r}", f"Pass a number, or one for each of the {rank} axes, as a tuple." if rank > 1 else "Pass a number.")


def _padding(given: Any, image: Sequence[int], filters: Sequence[int], stride: Sequence[int],
             dilation: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(before, after) of each axis."""
    rank = len(image)
    if isinstance(given, str) and given == "valid":
        given = 0
    if isinstance(given, str) and given == "same":
        whole = [max((-(-size // step) - 1) * step + reach * (taps - 1) + 1 - size, 0) if step > 0 else 0
                 for size, taps, step, reach in zip(image, filters, stride, dilation)]
        return tuple((all_ // 2, all_ - all_ // 2) for all_ in whole)
    if isinstance(given, (tuple, list)) and any(isinstance(one, (tuple, list)) for one in given):
        if len(given) == rank and all(isinstance(one, (tuple, list)) and len(one) == 2 for one in given):
            return tuple((low, high) for low, high in (_numbers(one, 2, "padding") for one in given))
        raise error("usage", f"padding={given!r}", f"Pass (before, after) of each of the {rank} axes.")
    return tuple((one, one) for one in _numbers(given, rank, "padding"))


def _permuted(x: Any, order: Sequence[int]) -> Any:
    return x.permute(tuple(order)) if is_torch(x) else x.transpose(tuple(order))


def _address(x: Any) -> Any:
    return x.data_ptr() if is_torch(x) else (getattr(x, "__cuda_array_interface__", None) or x.__array_interface__)["data"][0]


class _Sizes:
    """What one call's arrays are: the problem, and how its rows and columns are images or filters."""

    def __init__(self, problem: _core.Problem, rows: tuple[int, ...], columns: tuple[int, ...], last: bool) -> None:
        self.problem, self.rows, self.columns = problem, rows, columns  # the axes that m, or n behind its channels, counts
        self.last = last                                                # layout="nhwc"

    def _inner(self, rank: int) -> list[int]:
        """The order of axes in which what m or n counts lies one behind the other: channels last."""
        return list(range(rank)) if self.last else [0, *range(2, rank), 1]

    def _must_fit(self, x: Any, extents: Sequence[int], name: str) -> None:
        """Of several axes the extents count, not their product alone, which is what the plan sees."""
        wanted = self.rows or self.columns
        if len(self.rows or self.columns[1:]) > 1 and tuple(extents) != wanted:
            raise error("wrong_shape", f"{name!r} has shape {tuple(x.shape)}, but " + (
                f"the pixels of the output are {wanted}" if self.rows else
                f"the filters have taps {wanted[:-1]} of {wanted[-1]} channels"))

    def lines(self, x: Any, axes: int | None, name: str, written: bool = False) -> Any:
        """An operand's or output's image as the plan takes it. What is written must be a view."""
        rank, spatial = getattr(x, "ndim", 0), len(self.rows) or len(self.columns) - 1
        if rank == spatial + 2 and axes in (None, _TILE):
            inner = _permuted(x, self._inner(rank))
            self._must_fit(x, inner.shape[1:-1] if self.rows else inner.shape[1:], name)
            lines = inner.reshape((x.shape[0], math.prod(inner.shape[1:-1]), inner.shape[-1]) if self.rows else
                                  (x.shape[0], math.prod(inner.shape[1:])))
        elif self.rows and rank == spatial + 1 and axes == _COL:
            self._must_fit(x, x.shape[1:], name)
            lines = x.reshape(x.shape[0], math.prod(x.shape[1:]))
        elif self.columns and rank == spatial + 1 and axes in (None, _ROW):
            inner = x if self.last else _permuted(x, [*range(1, rank), 0])
            self._must_fit(x, inner.shape, name)
            lines = inner.reshape(math.prod(x.shape))
        else:
            return x
        if written and math.prod(x.shape) and _address(lines) != _address(x):
            forms = "that is contiguous" if self.last else "in channels_last" if self.columns else "that is contiguous, or in channels_last"
            raise error("wrong_stride", f"the rows of out= of {name!r} do not lie one behind the other", f"Pass an array {forms}.")
        return lines

    def image(self, x: Any, axes: int) -> Any:
        """The inverse, of an output. What has other extents, as of a reduction in groups, is left."""
        if self.rows and axes & _COL and x.ndim > 1 and x.shape[1] == math.prod(self.rows):
            x = x.reshape((x.shape[0], *self.rows, *x.shape[2:]))
            return x if axes != _TILE else self._outer(x)
        if self.columns and axes & _ROW and x.shape[-1] == math.prod(self.columns):
            x = x.reshape((*x.shape[:-1], *self.columns))
            if axes == _TILE:
                return self._outer(x)
            return x if self.last else _permuted(x, [x.ndim - 1, *range(x.ndim - 1)])
        return x

    def _outer(self, x: Any) -> Any:
        return x if self.last else _permuted(x, [0, x.ndim - 1, *range(1, x.ndim - 1)])


class _Written:
    """Outputs in their images' shapes, from arrays that the plan returns."""

    def __init__(self, sizes: _Sizes, axes: Mapping[str, int]) -> None:
        self.sizes, self.axes = sizes, axes

    def out(self, out: Any) -> Any:
        def written(array: Any, name: str) -> Any:
            return self.sizes.lines(array, self.axes.get(name), name, written=True)

        if isinstance(out, dict):
            return {name: written(array, name) for name, array in out.items()}
        if isinstance(out, (tuple, list)):
            return tuple(written(array, name) for array, name in zip(out, [*self.axes, *[""] * len(out)]))
        return out if out is None else written(out, next(iter(self.axes)))

    def images(self, result: Any) -> Any:
        if not isinstance(result, tuple):
            return self.sizes.image(result, next(iter(self.axes.values())))
        return type(result)(*[self.sizes.image(value, bits) for value, bits in zip(result, self.axes.values())])


class ConvCall:
    """A plan bound to arrays, as post.Call. Calling it returns the outputs in their images' shapes."""

    def __init__(self, call: _core.Call, written: _Written) -> None:
        self._call, self._written = call, written

    def __call__(self, stream: int | None = None) -> Any:
        return self._written.images(self._call(stream))

    @property
    def workspace_bytes(self) -> int:
        return self._call.workspace_bytes

    def describe(self) -> str:
        return self._call.describe()

    def __repr__(self) -> str:
        return repr(self._call)


class ConvPlan:
    """A convolution and an epilogue, compiled: for any sizes, bound as post.Plan is. `plan` is that plan."""

    def __init__(self, loop: Conv, problem: _core.Problem, plan: _core.Plan) -> None:
        self._loop, self._key, self.plan = loop, problem._key, plan
        self._axes = {name: bits for name, bits, _, output in plan.slots if output}
        self._operands = {name: bits for name, bits, _, output in plan.slots if not output}

    def _bound(self, arrays: tuple[Any, ...], out: Any, operands: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], _Written]:
        sizes, inputs = self._loop._sizes(*arrays)
        if sizes.problem._key != self._key:
            raise error("usage", f"the plan is for {self._key}, but these arrays make it {sizes.problem._key}",
                        "Make a plan for them: what 'same', input_size and filter_size mean depends on the sizes.")
        written = _Written(sizes, self._axes)
        given = {name: sizes.lines(value, self._operands.get(name), name) for name, value in operands.items()}
        return inputs, {**given, "out": written.out(out)}, written

    def pack(self, w: Any) -> _core.PackedOperand:
        """w in the kernels' own layout, made once; bind() takes it in w's place. Not in groups, nor of a strided gradient."""
        return self.plan.pack(self._loop._torch_shape(w))

    def bind(self, x: Any, w: Any, /, *, out: Any = None, **operands: Any) -> ConvCall:
        """A call on these arrays, in the shapes that the function without a plan takes, w perhaps as pack() made it."""
        inputs, more, written = self._bound((x, w), out, operands)
        return ConvCall(self.plan.bind(*inputs, **more), written)

    def verify(self, x: Any, w: Any, /, *, out: Any = None, **operands: Any) -> list[_core.Comparison]:
        """Runs, and compares every output with the float64 reference. Slow."""
        inputs, more, _ = self._bound((x, w), out, operands)
        return self.plan.verify(*inputs, **more)

    def explain(self, part: str = "summary", m: int = 0, n: int = 0, k: int = 0, *,
                shapes: tuple[Sequence[int], Sequence[int]] | None = None) -> str:
        """As post.Plan's. shapes: those of the two arrays, which say what m, n and k do not; channels last in memory."""
        if shapes is None:
            return self.plan.explain(part, m, n, k)
        if self._loop.layout == "nhwc":
            shapes = tuple([shape[0], shape[-1], *shape[1:-1]] for shape in shapes)
        return self.plan.explain(part, inputs=[[int(extent) for extent in shape] for shape in shapes])

    def __repr__(self) -> str:
        return repr(self.plan)


class Conv:
    """A convolution as a main loop. Called it is post.conv2d (or 1d, 3d: as many axes as x has); plan() is its post.plan.

    stride, dilation: a number, or one for each axis. padding: the same, or ((before, after), ...), or "same": as many pixels
    as the image has, divided by the stride and rounded up, with the odd zero behind; or "valid": none. layout: "nchw", torch's
    shapes, or "nhwc", with the channels last: x (N, H, W, C), w (K, R, S, C / groups), a tile (N, P, Q, K).
    """

    _kind = 0
    _names = ("x", "w")

    def __init__(self, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
                 layout: Literal["nchw", "nhwc"] = "nchw") -> None:
        if not isinstance(layout, str) or layout not in ("nchw", "nhwc"):
            raise error("usage", f"layout={layout!r}", 'Pass "nchw", torch\'s shapes, or "nhwc".')
        self.stride, self.padding, self.dilation, self.layout = stride, padding, dilation, layout
        (self.groups,) = _numbers(groups, 1, "groups")

    # What the direction makes of its arrays' sizes: the image's and the filters' extents; what the core wants beside these;
    # and the axes that m counts, and n.
    def _extents(self, first: Sequence[int], second: Sequence[int], rank: int) -> tuple[Sequence[int], Sequence[int]]:
        return first[2:], second[2:]

    def _torch_shape(self, array: Any) -> Any:
        """The array in torch's order of axes, in which filters are packed."""
        rank = getattr(array, "ndim", 0)
        if self.layout != "nhwc" or rank < 3 or isinstance(array, _core.PackedOperand):
            return array
        return _permuted(array, [0, rank - 1, *range(1, rank - 1)])

    def _sizes(self, one: Any, two: Any) -> tuple[_Sizes, tuple[Any, Any]]:
        ranks = [getattr(array, "ndim", 0) for array in (one, two)]
        if ranks[0] != ranks[1] or not 3 <= ranks[0] <= 5:
            raise error("wrong_rank", f"{self._names[0]} has {ranks[0]} axes and {self._names[1]} {ranks[1]}",
                        "Both have two axes and one for each of the convolution's, of which there are one to three.")
        rank, last = ranks[0] - 2, self.layout == "nhwc"
        one, two = self._torch_shape(one), self._torch_shape(two)
        image, taps = self._extents(one.shape, two.shape, rank)
        stride, dilation = _numbers(self.stride, rank, "stride"), _numbers(self.dilation, rank, "dilation")
        padding = _padding(self.padding, image, taps, stride, dilation)
        extra = self._extra(image, taps, two.shape if self._kind == 2 else one.shape, stride, padding, dilation)
        problem = _core.conv(self._kind, stride, padding, dilation, self.groups, extra)
        rows, columns = self._grids(image, taps, one.shape, stride, padding, dilation)
        return _Sizes(problem, rows, columns, last), (one, two)

    def _extra(self, image: Sequence[int], taps: Sequence[int], dy: Sequence[int], stride: Sequence[int],
               padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> Sequence[int]:
        return [0] * len(image)

    def _grids(self, image: Sequence[int], taps: Sequence[int], first: Sequence[int], stride: Sequence[int],
               padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple((size + sum(around) - reach * (tap - 1) - 1) // max(step, 1) + 1
                     for size, around, reach, tap, step in zip(image, padding, dilation, taps, stride)), ()

    def __call__(self, one: Any, two: Any, /, *, epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
                 **operands: Any) -> Any:
        sizes, inputs = self._sizes(one, two)
        chosen = _epilogue(epilogue)
        declared = {operand.name: operand.axes for operand in chosen.operands}
        given = {name: sizes.lines(value, declared.get(name), name) for name, value in operands.items()}
        ranks = [getattr(given.get(operand.name, operand.default), "ndim", None) for operand in chosen.operands]
        graph, _ = chosen._traced(chosen.axes_at(ranks, sizes.problem.batched))
        axes = {name: bits & _TILE for (name, *_), bits in zip(graph.outputs, graph.output_axes())}
        written = _Written(sizes, axes)
        return written.images(chosen._launcher(sizes.problem, _target(target))(inputs, given, written.out(out)))

    def plan(self, one: Any, two: Any, /, *, epilogue: Epilogue | None = None, target: Any = None,
             dtypes: Mapping[str, Any] | None = None, **operands: Any) -> ConvPlan:
        """As post.plan: the arrays are like those that will be bound."""
        sizes, inputs = self._sizes(one, two)
        chosen, problem, ranks, types, where, more = self._asked(sizes, inputs, epilogue, target, dtypes, operands)
        return ConvPlan(self, sizes.problem, chosen._compile(problem, ranks, types, [], where, more))

    def supports(self, one: Any, two: Any, /, *, epilogue: Epilogue | None = None, target: Any = None,
                 dtypes: Mapping[str, Any] | None = None, **operands: Any) -> Support:
        """As post.supports: whether plan() with the same arguments would succeed."""
        sizes, inputs = self._sizes(one, two)
        return _supported(lambda: self._asked(sizes, inputs, epilogue, target, dtypes, operands))

    @staticmethod
    def _asked(sizes: _Sizes, inputs: tuple[Any, Any], epilogue: Epilogue | None, target: Any, dtypes: Mapping[str, Any] | None,
               operands: Mapping[str, Any]) -> tuple[Any, ...]:
        declared = {operand.name: operand.axes for operand in _epilogue(epilogue).operands}
        given = {name: sizes.lines(value, declared.get(name), name) for name, value in operands.items()}
        return _problem(sizes.problem, inputs, epilogue, sizes.problem.batched, target, dtypes, given)


class ConvDgrad(Conv):
    """The gradient of a convolution by its x, as a main loop; post.conv_dgrad calls one. input_size: x's extents (H, W)."""

    _kind = 1
    _names = ("dy", "w")

    def __init__(self, input_size: Any, **options: Any) -> None:
        super().__init__(**options)
        self.input_size = input_size

    def _extents(self, first: Sequence[int], second: Sequence[int], rank: int) -> tuple[Sequence[int], Sequence[int]]:
        return _numbers(self.input_size, rank, "input_size"), second[2:]

    def _extra(self, image: Sequence[int], taps: Sequence[int], dy: Sequence[int], stride: Sequence[int],
               padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> Sequence[int]:
        extra = [size - ((pixels - 1) * step - sum(around) + reach * (tap - 1) + 1)
                 for size, pixels, step, around, reach, tap in zip(image, dy[2:], stride, padding, dilation, taps)]
        if any(not 0 <= more < max(step, 1) for more, step in zip(extra, stride)):
            raise error("wrong_shape", f"no convolution of an image of {tuple(image)} has an output of {tuple(dy[2:])} here",
                        "Take the input_size, stride, padding and dilation of the convolution.")
        return extra

    def _grids(self, image: Sequence[int], taps: Sequence[int], first: Sequence[int], stride: Sequence[int],
               padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(image), ()


class ConvWgrad(Conv):
    """The gradient of a convolution by its w, as a main loop; post.conv_wgrad calls one. filter_size: w's extents (R, S)."""

    _kind = 2
    _names = ("x", "dy")

    def __init__(self, filter_size: Any, **options: Any) -> None:
        super().__init__(**options)
        self.filter_size = filter_size

    def _extents(self, first: Sequence[int], second: Sequence[int], rank: int) -> tuple[Sequence[int], Sequence[int]]:
        return first[2:], _numbers(self.filter_size, rank, "filter_size")

    def _extra(self, image: Sequence[int], taps: Sequence[int], dy: Sequence[int], stride: Sequence[int],
               padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> Sequence[int]:
        return taps

    def _grids(self, image: Sequence[int], taps: Sequence[int], first: Sequence[int], stride: Sequence[int],
               padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (), (*taps, first[1] // max(self.groups, 1))


def _of_rank(rank: int, x: Any, w: Any) -> None:
    if getattr(x, "ndim", 0) != rank + 2 or getattr(w, "ndim", 0) != rank + 2:
        letters = ("", "H, ", "D, H, ")[rank - 1], ("", "R, ", "T, R, ")[rank - 1]
        raise error("wrong_rank", f"x has {getattr(x, 'ndim', 0)} axes and w {getattr(w, 'ndim', 0)}",
                    f"x is (N, C, {letters[0]}W), w is (K, C, {letters[1]}S).")


def conv2d(x: Any, w: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """epilogue(conv2d(x, w), **operands), computed in one pass.

    x is (N, C, H, W) in any strides, w is (K, C / groups, R, S); both are fastest in channels_last. The epilogue's b is the
    image, its m the pixel p * Q + q, its n the filter: a row is (K,) or (N, K), a tile (N, K, P, Q), a col (N, P, Q), annotated
    post.col; axis=0 reduces over an image's pixels, batch=True over all images too. Outputs have these shapes, tiles in
    channels_last. stride, padding, dilation and layout are as post.Conv takes them.
    out: arrays to write instead, in these shapes, as post.matmul's.
    """
    _of_rank(2, x, w)
    return Conv(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, w, epilogue=epilogue, out=out, target=target, **operands)


def conv1d(x: Any, w: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """As conv2d, over one axis: x is (N, C, W), w is (K, C / groups, S), a tile (N, K, Q)."""
    _of_rank(1, x, w)
    return Conv(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, w, epilogue=epilogue, out=out, target=target, **operands)


def conv3d(x: Any, w: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """As conv2d, over three axes: x is (N, C, D, H, W), w is (K, C / groups, T, R, S), a tile (N, K, Z, P, Q)."""
    _of_rank(3, x, w)
    return Conv(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, w, epilogue=epilogue, out=out, target=target, **operands)


def conv_dgrad(dy: Any, w: Any, input_size: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
               layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
               **operands: Any) -> Any:
    """epilogue(the gradient of a convolution by its x), in one pass, for one to three axes.

    dy is (N, K, P, Q), w is (K, C / groups, R, S), input_size is (H, W), because several images have an output of that size.
    The epilogue's b is the image, its m the pixel h * W + w, its n the channel: a tile is (N, C, H, W), a row (C,) or (N, C).
    A pixel that no window touches is epilogue(0).
    """
    return ConvDgrad(input_size, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        dy, w, epilogue=epilogue, out=out, target=target, **operands)


def conv_wgrad(x: Any, dy: Any, filter_size: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
               layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
               **operands: Any) -> Any:
    """epilogue(the gradient of a convolution by its w), in one pass, for one to three axes.

    x is (N, C, H, W), dy is (N, K, P, Q), filter_size is (R, S). The epilogue has no b; its m is the filter, its n (r, s, c):
    a tile is (K, C / groups, R, S), a col (K,), a row (C / groups, R, S).
    """
    return ConvWgrad(filter_size, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, dy, epilogue=epilogue, out=out, target=target, **operands)
