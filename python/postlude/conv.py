"""post.conv1d, conv2d, conv3d and their gradients: an epilogue over a convolution, in torch's shapes."""
from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Never

from . import _core
from ._images import Images, Sizes, as_array, permuted
from .dtypes import DType, as_dtype
from .epilogue import Epilogue
from .errors import error
from .run import Support, _epilogue, _problem, _supported, _target, by_name


def _numbers(given: Any, rank: int, what: str) -> tuple[int, ...]:
    """One number for each axis, from one for all or one each."""
    several = given if isinstance(given, (tuple, list)) else (given,) * rank
    try:
        if len(several) == rank:
            return tuple(operator.index(one) for one in several)
    except TypeError:
        pass
    raise error("usage", f"{what}={given!r} is no {what}", (f"Pass a number, or one for each of the {rank} axes, as a tuple" if rank > 1 else "Pass a number") +
                ('; or ((before, after), ...), "same" or "valid".' if what == "padding" else "."))


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
        raise error("usage", f"padding={given!r} is no padding", f"Pass (before, after) of each of the {rank} axes.")
    return tuple((one, one) for one in _numbers(given, rank, "padding"))


class ConvCall:
    """A plan bound to arrays, as post.Call. Calling it returns the outputs in their images' shapes."""

    def __init__(self, call: _core.Call, images: Images) -> None:
        self._call, self._images = call, images

    def __call__(self, stream: int | None = None) -> Any:
        with self._images.on(stream):
            return self._images.of(self._images.run(lambda: self._call(stream)))

    @property
    def workspace_bytes(self) -> int:
        return self._call.workspace_bytes

    def describe(self) -> str:
        """The schedule chosen for these shapes, and what is copied at each call because it does not lie as the plan takes it."""
        return self._call.describe() + self._images.copied

    def __repr__(self) -> str:
        return repr(self._call)


class ConvPlan:
    """A convolution and an epilogue, compiled: for any sizes, bound as post.Plan is. `plan` is that plan."""

    def __init__(self, loop: Conv, problem: _core.Problem, plan: _core.Plan) -> None:
        self._loop, self._key, self.plan = loop, problem._key, plan
        self._graph = plan.graph

    def _bound(self, arrays: tuple[Any, ...], out: Any, operands: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Images]:
        sizes, inputs = self._loop._sizes(*arrays)
        if sizes.problem._key != self._key:
            raise error("usage", f"the plan is for {self._key}, but these arrays make it {sizes.problem._key}",
                        "Make a plan for them: what 'same', input_size and filter_size mean depends on the sizes.")
        images = Images(sizes, self._graph)
        return inputs, {**images.operands(operands), "out": images.out(out)}, images

    def pack(self, w: Any) -> _core.PackedOperand:
        """w in the kernels' own layout, made once; bind() takes it in w's place. Not in groups, nor of a strided gradient."""
        return self.plan.pack(self._loop._torch_shape(as_array(w, "W")))

    def bind(self, x: Any, w: Any, /, *, out: Any = None, **operands: Any) -> ConvCall:
        """A call on these arrays, in the shapes that the function without a plan takes, w perhaps as pack() made it."""
        inputs, more, images = self._bound((x, w), out, operands)
        return ConvCall(self.plan.bind(*inputs, **more), images)

    def verify(self, x: Any, w: Any, /, *, out: Any = None, **operands: Any) -> list[_core.Comparison]:
        """Runs, and compares every output with the float64 reference. Slow."""
        inputs, more, images = self._bound((x, w), out, operands)
        compared: list[_core.Comparison] = images.run(lambda: self.plan.verify(*inputs, **more), fresh=True)
        return compared

    def explain(self, part: str = "summary", m: int = 0, n: int = 0, k: int = 0, *, shapes: tuple[Any, Any] | None = None) -> str:
        """As post.Plan's. shapes: those of the two arrays, which say what m, n and k do not, channels last in memory; or the two
        arrays themselves, which say how they lie."""
        return self.plan.explain(part, m, n, k) if shapes is None else self.plan.explain(part, inputs=self._inputs(shapes))

    def source(self, m: int = 0, n: int = 0, k: int = 0, *, shapes: tuple[Any, Any] | None = None) -> str:
        """The generated source, or a CPU's loop nest. shapes: as explain() takes them."""
        return self.explain("source", m, n, k, shapes=shapes)

    def prepare(self, *shapes: tuple[Any, Any], threads: int = 0) -> None:
        """As post.Plan's, at the shapes of the two arrays, or for arrays that lie like these, a pair for each size:
        prepare((x.shape, w.shape), ...)."""
        self.plan._prepare_for(*map(self._inputs, shapes), threads=threads)

    def _inputs(self, pair: Any) -> list[Any]:
        """In torch's order of axes: two shapes, or two arrays."""
        arrays = [as_array(array, name) for array, name in zip(pair, self._loop._names)] if isinstance(pair, (tuple, list)) else []
        if len(arrays) == 2 == len(pair) and all(hasattr(array, "shape") for array in arrays):
            return [self._loop._torch_shape(array) for array in arrays]
        try:
            given = [[operator.index(extent) for extent in shape] for shape in pair]
        except TypeError:
            given = []
        if len(given) != 2 or min(map(len, given)) < 2 or not all(-2**63 <= extent < 2**63 for shape in given for extent in shape):
            raise error("usage", f"{pair!r} are no shapes of {' and '.join(self._loop._names)}", "Pass theirs, a pair: (x.shape, w.shape).")
        return [[shape[0], shape[-1], *shape[1:-1]] for shape in given] if self._loop.layout == "nhwc" else given

    @property
    def graph(self) -> _core.Graph:
        return self._graph

    @property
    def target(self) -> _core.Target:
        return self.plan.target

    @property
    def slots(self) -> list[tuple[str, int, DType, bool]]:
        """As post.Plan's: m counts pixels and n filters, or what else the direction says."""
        return self.plan.slots

    def phases(self) -> list[_core.Phase]:
        """As post.Plan's."""
        return self.plan.phases()

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
    _size: Any = None  # input_size or filter_size

    def __init__(self, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
                 layout: Literal["nchw", "nhwc"] = "nchw") -> None:
        if not isinstance(layout, str) or layout not in ("nchw", "nhwc"):
            raise error("usage", f"layout={layout!r} is no layout", 'Pass "nchw", torch\'s shapes, or "nhwc".')
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
        return permuted(array, [0, rank - 1, *range(1, rank - 1)])

    def _sizes(self, one: Any, two: Any) -> tuple[Sizes, tuple[Any, Any]]:
        one, two = (as_array(array, name) for array, name in zip((one, two), self._names))
        ranks = [getattr(array, "ndim", 0) for array in (one, two)]
        if ranks[0] != ranks[1] or not 3 <= ranks[0] <= 5:
            raise error("wrong_rank", f"{self._names[0]} has {ranks[0]} axes and {self._names[1]} {ranks[1]}",
                        "Both have two axes and one for each of the convolution's, of which there are one to three.")
        rank = ranks[0] - 2
        one, two = self._torch_shape(one), self._torch_shape(two)
        image, taps = self._extents(one.shape, two.shape, rank)
        stride, dilation = _numbers(self.stride, rank, "stride"), _numbers(self.dilation, rank, "dilation")
        padding = _padding(self.padding, image, taps, stride, dilation)
        extra = self._extra(image, taps, two.shape if self._kind == 2 else one.shape, stride, padding, dilation)
        problem = _core.conv(self._kind, stride, padding, dilation, self.groups, extra)
        rows, columns = self._grids(image, taps, one.shape, stride, padding, dilation)
        return Sizes(problem, one.shape[0], rows, columns, self.layout == "nhwc"), (one, two)

    def _planned(self, one: Any, two: Any) -> tuple[Sizes, tuple[Any, Any]]:
        """As _sizes, of dtypes too: the options say how many axes there are, two where no tuple is among them."""
        if all(as_dtype(given) is None for given in (one, two)):
            return self._sizes(one, two)
        given = [option for option in (self.stride, self.padding, self.dilation, self._size) if isinstance(option, (tuple, list))]
        rank = len(given[0]) if given else 2
        stride, dilation = _numbers(self.stride, rank, "stride"), _numbers(self.dilation, rank, "dilation")
        if isinstance(self.padding, str) and self.padding == "same" or self._kind == 1 and max(stride) > 1:
            raise error("usage", f"a plan of {self._names[0]} and {self._names[1]} depends on their sizes here",
                        "Pass arrays like those that will be bound.")
        taps = _numbers(self._size, rank, "filter_size") if self._kind == 2 else (1,) * rank
        padding = _padding(self.padding, taps, taps, stride, dilation)
        problem = _core.conv(self._kind, stride, padding, dilation, self.groups, taps if self._kind == 2 else [0] * rank)
        return Sizes(problem, 1, () if self._kind == 2 else taps, (*taps, 1), self.layout == "nhwc"), (one, two)

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
        operands = {name: as_array(value, name) for name, value in operands.items()}
        ranks = [getattr(operands.get(operand.name, operand.default), "ndim", None) for operand in chosen.operands]
        graph = chosen.graph_of(chosen.axes_at([None if rank is None else sizes.class_rank(rank) for rank in ranks], sizes.problem.batched))
        images = Images(sizes, graph)
        given, places = images.operands(operands), images.out(out)
        launcher = chosen._launcher(sizes.problem, _target(target))
        return images.of(images.run(lambda: launcher(inputs, given, places), fresh=True))

    def plan(self, one: Any, two: Any, /, *, epilogue: Epilogue | None = None, target: Any = None,
             dtypes: Mapping[str, Any] | None = None, **operands: Any) -> ConvPlan:
        """As post.plan: the arrays are like those that will be bound, or dtypes."""
        sizes, inputs = self._planned(one, two)
        chosen, problem, ranks, types, where, more = self._asked(sizes, inputs, epilogue, target, dtypes, operands)
        return ConvPlan(self, sizes.problem, chosen._compile(problem, ranks, types, [], where, more))

    def supports(self, one: Any, two: Any, /, *, epilogue: Epilogue | None = None, target: Any = None,
                 dtypes: Mapping[str, Any] | None = None, **operands: Any) -> Support:
        """As post.supports: whether plan() with the same arguments would succeed."""
        _epilogue(epilogue)
        return _supported(lambda: self._asked(*self._planned(one, two), epilogue, target, dtypes, operands))

    @staticmethod
    def _asked(sizes: Sizes, inputs: tuple[Any, Any], epilogue: Epilogue | None, target: Any, dtypes: Mapping[str, Any] | None,
               operands: Mapping[str, Any]) -> tuple[Any, ...]:
        return _problem(sizes.problem, inputs, epilogue, sizes.problem.batched, target, dtypes, operands, sizes.class_rank)


class ConvDgrad(Conv):
    """The gradient of a convolution by its x, as a main loop; post.conv_dgrad calls one. input_size: x's extents (H, W)."""

    _kind = 1
    _names = ("dy", "w")

    def __init__(self, input_size: Any, **options: Any) -> None:
        super().__init__(**options)
        self.input_size = self._size = input_size

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
        self.filter_size = self._size = filter_size

    def _extents(self, first: Sequence[int], second: Sequence[int], rank: int) -> tuple[Sequence[int], Sequence[int]]:
        return first[2:], _numbers(self.filter_size, rank, "filter_size")

    def _extra(self, image: Sequence[int], taps: Sequence[int], dy: Sequence[int], stride: Sequence[int],
               padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> Sequence[int]:
        return taps

    def _grids(self, image: Sequence[int], taps: Sequence[int], first: Sequence[int], stride: Sequence[int],
               padding: Sequence[tuple[int, int]], dilation: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (), (*taps, first[1] // max(self.groups, 1))


_OPTIONS = ("stride", "padding", "dilation", "groups", "layout")


def _check_names(epilogue: Any, given: Any, function: str) -> None:
    """No operand has the name of an option, which would take its array (an object of the options takes all names), and what is
    given is an operand."""
    operands = getattr(epilogue, "operands", ())
    for operand in operands:
        if operand.name in _OPTIONS:
            raise error("bad_name", f"an operand cannot be called {operand.name!r} here, which is a keyword of post.{function}",
                        "Choose another name, or call an object of the options: post.Conv(...)(x, w, epilogue=...).", operand.place)
    names = [operand.name for operand in operands]
    for name in given:
        if name not in names:
            guess = _core.closest(name, [*names, *_OPTIONS])
            raise error("unknown_operand", f"no operand is called {_core.quoted(name)}, nor an option of post.{function}",
                        (f"Did you mean {guess!r}? " if guess else "") + f"The operands are: {', '.join(names) or 'none'}; the options: "
                        + ", ".join(_OPTIONS) + ".")


def _of_rank(rank: int, x: Any, w: Any) -> tuple[Any, Any]:
    x, w = as_array(x, "x"), as_array(w, "w")
    if getattr(x, "ndim", 0) != rank + 2 or getattr(w, "ndim", 0) != rank + 2:
        letters = ("", "H, ", "D, H, ")[rank - 1], ("", "R, ", "T, R, ")[rank - 1]
        other = getattr(x, "ndim", 0) - 2
        raise error("wrong_rank", f"x has {other + 2} axes and w {getattr(w, 'ndim', 0)}, but conv{rank}d takes {rank + 2} of each",
                    f"x is (N, C, {letters[0]}W), w is (K, C, {letters[1]}S)." +
                    (f" Those of {other + 2} axes are conv{other}d's." if other in (1, 2, 3) and other != rank else ""))
    return x, w


def conv2d(x: Any, w: Any, /, *others: Never, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """epilogue(conv2d(x, w), **operands), computed in one pass.

    x is (N, C, H, W) in any strides, w is (K, C / groups, R, S); both are fastest in channels_last. The epilogue's b is the
    image, its m the pixel p * Q + q, its n the filter: a row is (K,) or (N, K), a tile (N, K, P, Q) or, of all images, (K, P, Q),
    a col (N, P, Q) or (P, Q), annotated post.col; axis=0 reduces over an image's pixels, batch=True over all images too.
    Outputs have these shapes, tiles in channels_last. stride, padding, dilation and layout are as post.Conv takes them.
    out: arrays to write instead, in these shapes, as post.matmul's.
    """
    if others:
        by_name(others, "conv2d", "x", "w")
    x, w = _of_rank(2, x, w)
    _check_names(epilogue, operands, "conv2d")
    return Conv(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, w, epilogue=epilogue, out=out, target=target, **operands)


def conv1d(x: Any, w: Any, /, *others: Never, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """As conv2d, over one axis: x is (N, C, W), w is (K, C / groups, S), a tile (N, K, Q)."""
    if others:
        by_name(others, "conv1d", "x", "w")
    x, w = _of_rank(1, x, w)
    _check_names(epilogue, operands, "conv1d")
    return Conv(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, w, epilogue=epilogue, out=out, target=target, **operands)


def conv3d(x: Any, w: Any, /, *others: Never, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """As conv2d, over three axes: x is (N, C, D, H, W), w is (K, C / groups, T, R, S), a tile (N, K, Z, P, Q)."""
    if others:
        by_name(others, "conv3d", "x", "w")
    x, w = _of_rank(3, x, w)
    _check_names(epilogue, operands, "conv3d")
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
    _check_names(epilogue, operands, "conv_dgrad")
    return ConvDgrad(input_size, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        dy, w, epilogue=epilogue, out=out, target=target, **operands)


def conv_wgrad(x: Any, dy: Any, filter_size: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
               layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
               **operands: Any) -> Any:
    """epilogue(the gradient of a convolution by its w), in one pass, for one to three axes.

    x is (N, C, H, W), dy is (N, K, P, Q), filter_size is (R, S). The epilogue has no b; its m is the filter, its n (r, s, c):
    a tile is (K, C / groups, R, S), a col (K,), a row (C / groups, R, S).
    """
    _check_names(epilogue, operands, "conv_wgrad")
    return ConvWgrad(filter_size, stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, dy, epilogue=epilogue, out=out, target=target, **operands)
