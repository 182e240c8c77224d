"""Arrays of images and filters as the matrices that a plan takes, and back: as views where they lie so, else as copies."""
from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from .errors import error
from .numeric import is_torch, module_of

_ROW, _COL = 4, 2  # axes of an operand or output: a sum of 2 (over m) and 4 (over n)


def permuted(x: Any, order: Sequence[int]) -> Any:
    return x.permute(tuple(order)) if is_torch(x) else x.transpose(tuple(order))


def _address(x: Any) -> Any:
    return x.data_ptr() if is_torch(x) else (getattr(x, "__cuda_array_interface__", None) or x.__array_interface__)["data"][0]


def _contiguous(x: Any) -> bool:
    return bool(x.is_contiguous() if is_torch(x) else x.flags.c_contiguous)


def as_array(x: Any, name: str) -> Any:
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


class Slot(NamedTuple):
    """What an operand or an output is: its axes, 1 (over b, of outputs), 2 (over m) and 4 (over n), and which are whole, not
    in groups or chunks."""

    axes: int
    whole: int


@functools.lru_cache(maxsize=256)
def _slots(graph: _core.Graph) -> tuple[dict[str, Slot], dict[str, Slot]]:
    """Operands and outputs by name."""
    found: tuple[dict[str, Slot], dict[str, Slot]] = {}, {}
    for name, axes, whole, output in graph.slots():
        found[output][name] = Slot(axes, whole)
    return found


class Sizes:
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

    def _turned(self, slot: Slot, batch: int) -> tuple[int, int | None, int] | None:
        """Of an array in torch's shape, behind so many axes of a batch: where what m or n counts begins, once the axis of
        channels has moved behind it; that axis; and how many axes there are. None of what is no image."""
        if not slot.axes & slot.whole & (_COL if self.rows else _ROW):
            return None
        begin = batch if self.rows else int(bool(slot.axes & _COL))
        channels = not self.rows or bool(slot.axes & _ROW)
        return begin, begin if channels and not self.last else None, begin + len(self.extents) + (self.rows and channels)

    def lines(self, x: Any, slot: Slot, batch: int, name: str) -> tuple[Any, Any]:
        """An image with its channels last, and the same as the plan takes it: a view, or a copy. name: and shape, as given."""
        turned = self._turned(slot, batch)
        if turned is None or getattr(x, "ndim", 0) != turned[2]:
            return x, x
        begin, moved, rank = turned
        inner = x if moved is None else permuted(x, [*(axis for axis in range(rank) if axis != moved), moved])
        end = begin + len(self.extents)
        if tuple(inner.shape[begin:end]) != self.extents:
            raise error("wrong_shape", f"{name}, but " + (
                f"the pixels of the output are {self.extents}" if self.rows else
                f"the filters have taps {self.extents[:-1]} of {self.extents[-1]} channels"),
                'Axes are in the order of `layout`: "nchw", or "nhwc" with the channels last.')
        return inner, inner.reshape((*inner.shape[:begin], math.prod(self.extents), *inner.shape[end:]))

    def of_all_images(self, x: Any, slot: Slot) -> Any:
        """An operand with the axis of its images, where it is one that all share."""
        turned, rank = self._turned(slot, 1), getattr(x, "ndim", 0)
        if not self.rows or turned is None or not turned[2] - 1 <= rank <= turned[2]:
            return x
        x = x[None] if rank < turned[2] else x
        return module_of(x).broadcast_to(x, (self.images, *x.shape[1:])) if x.shape[0] == 1 != self.images else x

    def image(self, x: Any, slot: Slot) -> Any:
        """The inverse of lines, of an output."""
        turned = self._turned(slot, slot.axes & 1)
        if turned is None:
            return x
        begin, moved, rank = turned
        x = x.reshape((*x.shape[:begin], *self.extents, *x.shape[begin + 1:]))
        return x if moved is None else permuted(x, [*range(moved), rank - 1, *range(moved, rank - 1)])


class Images:
    """One call's operands and outputs in their images' shapes. What does not lie as the plan takes it is copied: an operand
    before each run, an output behind it."""

    def __init__(self, sizes: Sizes, graph: _core.Graph) -> None:
        self._sizes = sizes
        self._operands, self._outputs = _slots(graph)
        self._read: dict[str, tuple[Any, Any]] = {}          # the copy, in the array's order of axes, and the array
        self._written: dict[str, tuple[Any, Any, Any]] = {}  # and the array as it was given
        self._met: set[int] = set()                          # streams that ran behind the copies that were made first

    def operands(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._operand(name, value) for name, value in given.items()}

    def _operand(self, name: str, x: Any) -> Any:
        x = as_array(x, name)
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
        x = as_array(given, name)
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
