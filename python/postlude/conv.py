"""post.conv1d, conv2d, conv3d and their gradients: an epilogue over a convolution, in torch's shapes."""
from __future__ import annotations

import contextlib
import functools
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from . import _core
from .dtypes import DType, as_dtype
from .epilogue import Epilogue
from .errors import error
from .numeric import is_torch, module_of
from .run import Support, _epilogue, _problem, _supported, _target

_ROW, _COL = 4, 2  # axes of an operand or output: a sum of 2 (over m) and 4 (over n)


def _numbers(given: Any, rank: int, what: str) -> tuple[int, ...]:
    """One number for each axis, from one for all or one each."""
    several = given if isinstance(given, (tuple, list)) else (given,) * rank
    try:
        if len(several) == rank:
            return tuple(operator.index(one) for one in several)
    except TypeError:
        pass
    raise error("usage", f"{what}={given!r}", (f"Pass a number, or one for each of the {rank} axes, as a tuple" if rank > 1 else "Pass a number") +
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
        raise error("usage", f"padding={given!r}", f"Pass (before, after) of each of the {rank} axes.")
    return tuple((one, one) for one in _numbers(given, rank, "padding"))


def _permuted(x: Any, order: Sequence[int]) -> Any:
    return x.permute(tuple(order)) if is_torch(x) else x.transpose(tuple(order))


def _address(x: Any) -> Any:
    return x.data_ptr() if is_torch(x) else (getattr(x, "__cuda_array_interface__", None) or x.__array_interface__)["data"][0]


def _contiguous(x: Any) -> bool:
    return bool(x.is_contiguous() if is_torch(x) else x.flags.c_contiguous)


def _array(x: Any, name: str) -> Any:
    """An array, which has axes to turn, of what exports one; anything else as it is."""
    if hasattr(x, "transpose") or isinstance(x, type):
        return x
    if hasattr(x, "__array_interface__") or isinstance(x, memoryview):
        return np.asarray(x)
    if not hasattr(x, "__dlpack__"):
        return x
    refusal: Exception | None = None
    for module in filter(None, map(sys.modules.get, ("numpy", "torch", "cupy"))):
        try:
            return module.from_dlpack(x)
        except Exception as caught:  # of another device or dtype
            refusal = caught
    raise error("wrong_dtype", f"{name!r} cannot be read through DLPack: {refusal}", "Convert it to numpy, torch, cupy or jax.")


class _Slot(NamedTuple):
    """What an operand or an output is: its axes, 1 (over b, of outputs), 2 (over m) and 4 (over n), and which are whole, not
    in groups or chunks."""

    axes: int
    whole: int


@functools.lru_cache(maxsize=256)
def _slots(graph: _core.Graph) -> tuple[dict[str, _Slot], dict[str, _Slot]]:
    """Operands and outputs by name."""
    found: tuple[dict[str, _Slot], dict[str, _Slot]] = {}, {}
    for name, axes, whole, output in graph.slots():
        found[output][name] = _Slot(axes, whole)
    return found


class _Sizes:
    """What one call's arrays are: the problem, and how its rows and columns are images or filters."""

    def __init__(self, problem: _core.Problem, images: int, rows: tuple[int, ...], columns: tuple[int, ...], last: bool) -> None:
        self.problem, self.images = problem, images
        self.rows, self.extents = bool(rows), rows or columns  # the axes that m counts, or n: the pixels', or taps and channels
        self.last = last                                       # layout="nhwc"

    def class_rank(self, rank: int) -> int:
        """How many axes an array of the same class has behind a product: what says an unannotated operand's class."""
        if self.rows:
            spatial = len(self.extents)
            return 3 if rank == spatial + 2 or rank == spatial + 1 > 2 else rank
        return {len(self.extents) + 1: 2, len(self.extents): 1}.get(rank, rank)

    def _turned(self, slot: _Slot, batch: int) -> tuple[int, int | None, int] | None:
        """Of an array in torch's shape, behind so many axes of a batch: where what m or n counts begins, once the axis of
        channels has moved behind it; that axis; and how many axes there are. None of what is no image."""
        if not slot.axes & slot.whole & (_COL if self.rows else _ROW):
            return None
        begin = batch if self.rows else int(bool(slot.axes & _COL))
        channels = not self.rows or bool(slot.axes & _ROW)
        return begin, begin if channels and not self.last else None, begin + len(self.extents) + (self.rows and channels)

    def lines(self, x: Any, slot: _Slot, batch: int, name: str) -> tuple[Any, Any]:
        """An image with its channels last, and the same as the plan takes it: a view, or a copy. name: and shape, as given."""
        turned = self._turned(slot, batch)
        if turned is None or getattr(x, "ndim", 0) != turned[2]:
            return x, x
        begin, moved, rank = turned
        inner = x if moved is None else _permuted(x, [*(axis for axis in range(rank) if axis != moved), moved])
        end = begin + len(self.extents)
        if tuple(inner.shape[begin:end]) != self.extents:
            raise error("wrong_shape", f"{name}, but " + (
                f"the pixels of the output are {self.extents}" if self.rows else
                f"the filters have taps {self.extents[:-1]} of {self.extents[-1]} channels"))
        return inner, inner.reshape((*inner.shape[:begin], math.prod(self.extents), *inner.shape[end:]))

    def of_all_images(self, x: Any, slot: _Slot) -> Any:
        """An operand with the axis of its images, where it is one that all share."""
        turned, rank = self._turned(slot, 1), getattr(x, "ndim", 0)
        if not self.rows or turned is None or not turned[2] - 1 <= rank <= turned[2]:
            return x
        x = x[None] if rank < turned[2] else x
        return module_of(x).broadcast_to(x, (self.images, *x.shape[1:])) if x.shape[0] == 1 != self.images else x

    def image(self, x: Any, slot: _Slot) -> Any:
        """The inverse of lines, of an output."""
        turned = self._turned(slot, slot.axes & 1)
        if turned is None:
            return x
        begin, moved, rank = turned
        x = x.reshape((*x.shape[:begin], *self.extents, *x.shape[begin + 1:]))
        return x if moved is None else _permuted(x, [*range(moved), rank - 1, *range(moved, rank - 1)])


class _Images:
    """One call's operands and outputs in their images' shapes. What does not lie as the plan takes it is copied: an operand
    before each run, an output behind it."""

    def __init__(self, sizes: _Sizes, graph: _core.Graph) -> None:
        self._sizes = sizes
        self._operands, self._outputs = _slots(graph)
        self._read: dict[str, tuple[Any, Any]] = {}          # the copy, in the array's order of axes, and the array
        self._written: dict[str, tuple[Any, Any, Any]] = {}  # and the array as it was given
        self._met: set[int] = set()                          # streams that ran behind the copies that were made first

    def operands(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._operand(name, value) for name, value in given.items()}

    def _operand(self, name: str, x: Any) -> Any:
        x = _array(x, name)
        if name not in self._operands:
            return x
        slot = self._operands[name]
        inner, lines = self._sizes.lines(self._sizes.of_all_images(x, slot), slot, 1, _shown(name, x))
        if lines is not inner and _copied(inner, lines):
            self._read[name] = _kept(lines.reshape(inner.shape)), _kept(inner)
        return lines

    def out(self, out: Any) -> Any:
        if isinstance(out, dict):
            return {name: self._output(name, array) for name, array in out.items()}
        if isinstance(out, (tuple, list)):
            return tuple(self._output(name, array) for array, name in zip(out, [*self._outputs, *[""] * len(out)]))
        return out if out is None else self._output(next(iter(self._outputs)), out)

    def _output(self, name: str, given: Any) -> Any:
        x = _array(given, name)
        slot = self._outputs.get(name)
        if slot is None:
            return x
        inner, lines = self._sizes.lines(x, slot, slot.axes & 1, _shown(name, x))
        if lines is inner or not _copied(inner, lines):
            return lines
        if self._sizes.rows or not _contiguous(x):
            raise error("wrong_stride", f"the rows of out= of {name!r} do not lie one behind the other",
                        "Pass an array that is contiguous" + ("." if self._sizes.last else ", or in channels_last."))
        if isinstance(x, np.ndarray) and not x.flags.writeable:
            raise error("usage", f"output {name!r} cannot be written: it is read-only", "Pass an array that may be written, or leave out= away.")
        for other, (_, _, array) in self._written.items():
            if _address(array) < _address(x) + _bytes(x) and _address(x) < _address(array) + _bytes(array):
                raise error("overlap", f"the outputs {other!r} and {name!r} overlap", "Pass other memory.")
        self._written[name] = _kept(lines.reshape(inner.shape)), _kept(inner), x
        return lines

    @property
    def copied(self) -> str:
        """What a run copies, as words behind a schedule."""
        words = [f"{name} is copied before each run" for name in self._read] + [f"{name} is copied back behind it" for name in self._written]
        return "".join(f"; {one}" for one in words)

    def run(self, call: Callable[[], Any], fresh: bool = False) -> Any:
        """The result of a call, with what is copied before and behind it; fresh: what was just copied."""
        for copy, array in () if fresh else self._read.values():
            copy[...] = array
        result = call()
        for copy, array, _ in self._written.values():
            array[...] = copy
        return result

    def of(self, result: Any) -> Any:
        """The outputs' images."""
        values = result if isinstance(result, tuple) else (result,)
        images = [self._written[name][2] if name in self._written else self._sizes.image(value, slot)
                  for value, (name, slot) in zip(values, self._outputs.items())]
        return type(result)(*images) if isinstance(result, tuple) else images[0]

    def on(self, stream: int | None) -> contextlib.AbstractContextManager[Any]:
        """Copies on this stream, a CUstream, where it is not the framework's own."""
        arrays = [array for _, array, *_ in [*self._read.values(), *self._written.values()]]
        torch = bool(arrays) and is_torch(arrays[0])
        if stream is None or not arrays or not (arrays[0].is_cuda if torch else hasattr(arrays[0], "__cuda_array_interface__")):
            return contextlib.nullcontext()
        cuda: Any = sys.modules["torch" if torch else "cupy"].cuda
        chosen = cuda.ExternalStream(stream)
        if stream not in self._met:
            chosen.wait_event(cuda.current_stream().record_event() if torch else cuda.get_current_stream().record())
            self._met.add(stream)
        entered: contextlib.AbstractContextManager[Any] = cuda.stream(chosen) if torch else chosen
        return entered


def _shown(name: str, x: Any) -> str:
    return f"{name!r} has shape {tuple(getattr(x, 'shape', ()))}"


def _copied(x: Any, lines: Any) -> bool:
    """Whether lines are a copy, which what is written to x does not reach. Nobody writes to an array of jax."""
    return math.prod(x.shape) > 0 and getattr(module_of(x), "__name__", "") != "jax.numpy" and bool(_address(lines) != _address(x))


def _kept(x: Any) -> Any:
    """An array that a later run reads or writes, whether gradients are recorded then or not."""
    return x.detach() if is_torch(x) else x


def _bytes(x: Any) -> int:
    return int(math.prod(x.shape) * (x.element_size() if is_torch(x) else x.itemsize))


class ConvCall:
    """A plan bound to arrays, as post.Call. Calling it returns the outputs in their images' shapes."""

    def __init__(self, call: _core.Call, images: _Images) -> None:
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

    def _bound(self, arrays: tuple[Any, ...], out: Any, operands: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], _Images]:
        sizes, inputs = self._loop._sizes(*arrays)
        if sizes.problem._key != self._key:
            raise error("usage", f"the plan is for {self._key}, but these arrays make it {sizes.problem._key}",
                        "Make a plan for them: what 'same', input_size and filter_size mean depends on the sizes.")
        images = _Images(sizes, self._graph)
        return inputs, {**images.operands(operands), "out": images.out(out)}, images

    def pack(self, w: Any) -> _core.PackedOperand:
        """w in the kernels' own layout, made once; bind() takes it in w's place. Not in groups, nor of a strided gradient."""
        return self.plan.pack(self._loop._torch_shape(_array(w, "W")))

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
        arrays = [_array(array, name) for array, name in zip(pair, self._loop._names)] if isinstance(pair, (tuple, list)) else []
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
        one, two = (_array(array, name) for array, name in zip((one, two), self._names))
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
        return _Sizes(problem, one.shape[0], rows, columns, self.layout == "nhwc"), (one, two)

    def _planned(self, one: Any, two: Any) -> tuple[_Sizes, tuple[Any, Any]]:
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
        return _Sizes(problem, 1, () if self._kind == 2 else taps, (*taps, 1), self.layout == "nhwc"), (one, two)

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
        operands = {name: _array(value, name) for name, value in operands.items()}
        ranks = [getattr(operands.get(operand.name, operand.default), "ndim", None) for operand in chosen.operands]
        graph = chosen.graph_of(chosen.axes_at([None if rank is None else sizes.class_rank(rank) for rank in ranks], sizes.problem.batched))
        images = _Images(sizes, graph)
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
    def _asked(sizes: _Sizes, inputs: tuple[Any, Any], epilogue: Epilogue | None, target: Any, dtypes: Mapping[str, Any] | None,
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
    x, w = _array(x, "x"), _array(w, "w")
    if getattr(x, "ndim", 0) != rank + 2 or getattr(w, "ndim", 0) != rank + 2:
        letters = ("", "H, ", "D, H, ")[rank - 1], ("", "R, ", "T, R, ")[rank - 1]
        raise error("wrong_rank", f"x has {getattr(x, 'ndim', 0)} axes and w {getattr(w, 'ndim', 0)}",
                    f"x is (N, C, {letters[0]}W), w is (K, C, {letters[1]}S).")
    return x, w


def conv2d(x: Any, w: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """epilogue(conv2d(x, w), **operands), computed in one pass.

    x is (N, C, H, W) in any strides, w is (K, C / groups, R, S); both are fastest in channels_last. The epilogue's b is the
    image, its m the pixel p * Q + q, its n the filter: a row is (K,) or (N, K), a tile (N, K, P, Q) or, of all images, (K, P, Q),
    a col (N, P, Q) or (P, Q), annotated post.col; axis=0 reduces over an image's pixels, batch=True over all images too.
    Outputs have these shapes, tiles in channels_last. stride, padding, dilation and layout are as post.Conv takes them.
    out: arrays to write instead, in these shapes, as post.matmul's.
    """
    x, w = _of_rank(2, x, w)
    _check_names(epilogue, operands, "conv2d")
    return Conv(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, w, epilogue=epilogue, out=out, target=target, **operands)


def conv1d(x: Any, w: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """As conv2d, over one axis: x is (N, C, W), w is (K, C / groups, S), a tile (N, K, Q)."""
    x, w = _of_rank(1, x, w)
    _check_names(epilogue, operands, "conv1d")
    return Conv(stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout)(
        x, w, epilogue=epilogue, out=out, target=target, **operands)


def conv3d(x: Any, w: Any, /, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
           layout: Literal["nchw", "nhwc"] = "nchw", epilogue: Epilogue | None = None, out: Any = None, target: Any = None,
           **operands: Any) -> Any:
    """As conv2d, over three axes: x is (N, C, D, H, W), w is (K, C / groups, T, R, S), a tile (N, K, Z, P, Q)."""
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
