"""The operations on plain arrays: what an epilogue's function computes when it is called with numpy or torch arrays.

This is the epilogue as its own reference, and slow: one pass an operation. Inside a decorated function every array has
its two (or three) axes, rows as (1, N) and columns as (M, 1), and reductions keep the reduced axis at length 1, so that
numpy's broadcasting is the language's.
"""
from __future__ import annotations

import contextlib
import functools
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core, dtypes
from ._public import public
from .dtypes import DType, Round
from .errors import error


def is_torch(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def module_of(*items: Any) -> Any:
    """The array module of the first array among `items`: torch, jax.numpy or cupy, else numpy."""
    for item in items:
        if is_torch(item):
            return sys.modules["torch"]
        root = type(item).__module__.partition(".")[0]
        if root in ("jax", "jaxlib"):
            return sys.modules["jax.numpy"]
        if root == "cupy":
            return sys.modules["cupy"]
    return np


def is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) or module_of(x) is not np


def widen(x: Any) -> Any:
    """An array in a type that is computed in: f32 (f64 stays: the caller wants more digits), i32, i64 or bool."""
    if is_torch(x):
        torch = sys.modules["torch"]
        if x.dtype.is_floating_point:
            return x if x.dtype == torch.float64 else x.float()
        return x if x.dtype in (torch.int32, torch.int64, torch.bool) else x.int()
    if not hasattr(x, "dtype"):
        return x
    name = str(x.dtype)
    if name.startswith(("bfloat", "float8", "float16")):
        return x.astype(np.float32)
    return x.astype(np.int32) if name in ("int8", "uint8", "int16", "uint16") else x


class Pure(np.ndarray[Any, Any]):
    """What an epilogue's function is given for an array: `x += y` makes a new value of the name x, as in the language, and
    writes into nobody's memory."""


def _rebinding(kind: Any, base: Any) -> Any:
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or"):
        setattr(kind, f"__i{name}__", getattr(base, f"__{name}__"))
    return kind


_rebinding(Pure, np.ndarray)


@functools.lru_cache(maxsize=1)
def _pure_tensor() -> Any:
    base = sys.modules["torch"].Tensor
    return _rebinding(type("Pure", (base,), {}), base)


def pure(x: Any) -> Any:
    """A view of an array that no operator writes to."""
    if isinstance(x, np.ndarray):
        if hasattr(x, "mask"):
            raise error("wrong_dtype", "an array has a mask, and an epilogue computes with every element",
                        "Pass array.filled(value), and if the mask counts, an operand for it.")
        x = x.view(Pure)
        x.flags.writeable = False
        return x
    if is_torch(x):
        return x.as_subclass(_pure_tensor())
    return x.copy() if module_of(x) is not np and hasattr(x, "copy") else x


def impure(x: Any) -> Any:
    """The array of a result, in memory of its own."""
    if isinstance(x, Pure):
        return x.view(np.ndarray) if x.flags.writeable else np.array(x)
    if is_torch(x) and type(x) is _pure_tensor():
        return x.as_subclass(sys.modules["torch"].Tensor).clone()
    return x


def copied(x: Any) -> Any:
    """An array that a function of the user's may write to."""
    return x.clone() if is_torch(x) else np.array(x) if isinstance(x, np.ndarray) else x.copy() if is_array(x) else x


def _as_pure(result: Any, *items: Any) -> Any:
    """`result`, pure where one of the arrays that it is made of is: numpy's where() and others forget it."""
    return result.view(Pure) if type(result) is np.ndarray and any(isinstance(i, Pure) for i in items) else result


@dataclass
class Grid:
    """The output's shape while an epilogue runs on arrays: what m_index() and random() number."""

    batch: int
    rows: int
    columns: int
    like: Any

    def place(self, x: np.ndarray[Any, Any]) -> Any:
        xp = module_of(self.like)
        return pure(x if xp is np else xp.asarray(x, device=self.like.device) if is_torch(self.like) else xp.asarray(x))

    @property
    def batched(self) -> bool:
        return len(self.like.shape) == 3


class _Current(threading.local):
    grid: Grid | None = None
    pixels: tuple[int, ...] = ()


_current = _Current()


@contextlib.contextmanager
def _during(name: str, value: Any) -> Iterator[None]:
    before = getattr(_current, name)
    setattr(_current, name, value)
    try:
        yield
    finally:
        setattr(_current, name, before)


def on_grid(grid: Grid) -> contextlib.AbstractContextManager[None]:
    return _during("grid", grid)


def pixels(*extents: int) -> contextlib.AbstractContextManager[None]:
    """Says what the rows of plain arrays are: `with post.pixels(P, Q): epilogue(acc, ...)`, outermost axis first, as
    behind a convolution. z_index(), p_index() and q_index() ask for it."""
    if not 1 <= len(extents) <= 3 or not all(hasattr(one, "__index__") and one >= 1 for one in extents):
        raise error("usage", f"post.pixels{extents!r}", "Pass how many planes, rows and columns of pixels an image has.")
    return _during("pixels", extents)


def running() -> bool:
    """Whether an epilogue runs on arrays now, in this thread."""
    return _current.grid is not None


def grid(name: str) -> Grid:
    if _current.grid is None:
        raise error("usage", f"post.{name}() stands for the elements of an epilogue's output, and none is running",
                    "Call it in a function with @post.epilogue.")
    return _current.grid


def m_index() -> Any:
    g = grid("m_index")
    return g.place(np.arange(g.rows, dtype=np.int32)[:, None])


def n_index() -> Any:
    g = grid("n_index")
    return g.place(np.arange(g.columns, dtype=np.int32)[None, :])


def batch_index() -> Any:
    g = grid("batch_index")
    return g.place(np.arange(g.batch, dtype=np.int32)[:, None, None] if g.batched else np.zeros((1, 1), np.int32))


def _pixel(name: str, axis: int) -> Any:
    g = grid(name)
    if not _current.pixels:
        raise error("usage", f"post.{name}() asks for a pixel, and arrays do not say what theirs are",
                    "Call the epilogue within `with post.pixels(P, Q):`.")
    if math.prod(_current.pixels) != g.rows:
        raise error("wrong_shape", f"post.pixels{_current.pixels!r} is {math.prod(_current.pixels)} pixels, but there are {g.rows} rows")
    extents = (1, 1, *_current.pixels)[-3:]
    rows = np.arange(g.rows, dtype=np.int32) // math.prod(extents[axis + 1:]) % extents[axis]
    return g.place(rows[:, None])


def z_index() -> Any:
    return _pixel("z_index", 0)


def p_index() -> Any:
    return _pixel("p_index", 1)


def q_index() -> Any:
    return _pixel("q_index", 2)


def random(seed: int, stream: int = 0) -> Any:
    g = grid("random")
    numbers = np.empty((g.batch, g.rows, g.columns), np.float32)
    _core.fill_random(numbers, seed, stream)
    return g.place(numbers if g.batched else numbers[0])


def cast(x: Any, dtype: DType, round: Round = Round.nearest_even, seed: int = 0) -> Any:
    """Rounds as the language does, by the same code; the result is a new array, in the type that the language computes in."""
    source = widen(x)
    source = source.detach().cpu().numpy() if is_torch(source) else np.asarray(source)
    whole = source.dtype.kind in "iub" and source.dtype != np.uint64
    values = np.asarray(source, np.int64 if whole else np.float64, order="C")
    real = dtype not in _integers
    out = np.empty(values.shape, np.float64 if real else np.int64)
    noise = None
    if round == Round.stochastic:
        noise = np.empty((1,) * (3 - values.ndim) + values.shape, np.float32)
        _core.fill_random(noise, seed, 0)
    _core.cast_array(values, out, dtype, round, noise)
    kind = (np.float64 if source.dtype == np.float64 else np.float32) if real else _integers[dtype]
    xp, result = module_of(x), out.astype(kind)
    return _as_pure(result, x) if xp is np else xp.asarray(result, device=x.device) if is_torch(x) else xp.asarray(result)


_integers: dict[DType, Any] = {DType.i64: np.int64, DType.i32: np.int32, DType.s8: np.int32, DType.u8: np.int32, dtypes.bool: np.bool_}


# Elementwise primitives: (xp, arguments) -> array. Those that numpy and torch call alike need no row.
def _real(xp: Any, x: Any) -> Any:
    if isinstance(x, (bool, int, float)) or xp is not np:
        return x.float() if is_torch(x) and not x.dtype.is_floating_point else x
    return x if np.asarray(x).dtype.kind == "f" else np.asarray(x, np.float32)


def _both(xp: Any, *items: Any) -> list[Any]:
    """torch's two-argument functions take no numbers."""
    if xp is np or not is_torch(next((i for i in items if is_torch(i)), None)):
        return list(items)
    like = next(i for i in items if is_torch(i))
    return [i if is_torch(i) else xp.as_tensor(i, device=like.device) for i in items]


_erf: Callable[..., Any] = np.vectorize(math.erf, otypes=[np.float64])


def _numpy_erf(x: Any) -> Any:
    array = np.asarray(x)
    return _erf(array).astype(np.float32 if array.dtype.kind in "iub" else array.dtype) if array.size else array


def _divide(xp: Any, a: Any, b: Any) -> Any:
    return _real(xp, a) / _real(xp, b)


_elementwise: dict[str, Callable[..., Any]] = {
    "add": lambda xp, a, b: a + b,
    "sub": lambda xp, a, b: a - b,
    "mul": lambda xp, a, b: a * b,
    "div": _divide,
    "floordiv": lambda xp, a, b: a // b,
    "neg": lambda xp, x: -x,
    "abs": lambda xp, x: abs(x),
    "min": lambda xp, a, b: xp.minimum(*_both(xp, a, b)),
    "max": lambda xp, a, b: xp.maximum(*_both(xp, a, b)),
    "fma": lambda xp, a, b, c: a * b + c,
    "rsqrt": lambda xp, x: 1 / xp.sqrt(_real(xp, x)),
    "reciprocal": lambda xp, x: 1 / _real(xp, x),
    "erf": lambda xp, x: _numpy_erf(x) if xp is np else xp.erf(x) if hasattr(xp, "erf") else xp.asarray(_numpy_erf(np.asarray(x))),
    "pow": lambda xp, a, b: _real(xp, a) ** b,
    "floor": lambda xp, x: xp.floor(x),
    "ceil": lambda xp, x: xp.ceil(x),
    "round": lambda xp, x: xp.round(x),
    "eq": lambda xp, a, b: a == b, "ne": lambda xp, a, b: a != b, "lt": lambda xp, a, b: a < b,
    "le": lambda xp, a, b: a <= b, "gt": lambda xp, a, b: a > b, "ge": lambda xp, a, b: a >= b,
    "bit_and": lambda xp, a, b: a & b, "bit_or": lambda xp, a, b: a | b, "bit_not": lambda xp, x: ~x,
    "where": lambda xp, c, a, b: xp.where(c, a, b),
    "scaled": lambda xp, s, x: xp.where(s == 0, xp.zeros_like(s * x) if is_torch(x) else 0.0, s * x),
}


def elementwise(op: str, *items: Any) -> Any:
    xp = module_of(*items)
    with np.errstate(all="ignore"):
        if function := _elementwise.get(op):
            if xp is np and not any(isinstance(i, np.ndarray) for i in items):
                items = tuple(np.asarray(i)[()] for i in items)
            return _as_pure(function(xp, *items), *items)
        return getattr(xp, op)(_real(xp, items[0]))


# Reductions over the last two axes. axis: 1 over N, 0 over M, None both; batch: the first axis too.
def _axes(x: Any, axis: Any, batch: bool) -> tuple[int, ...]:
    over = {None: (-2, -1), 0: (-2,), 1: (-1,), -1: (-1,), -2: (-2,)}[axis] if not isinstance(axis, tuple) else (-2, -1)
    return (*over, -3) if batch and x.ndim == 3 else over


def _for_batches(x: Any) -> Any:
    """A value for each batch, where there are several: what has none is the same in all of them."""
    g = _current.grid
    if g is None or not g.batched or (x.ndim == 3 and x.shape[0] == g.batch):
        return x
    shape = (g.batch, *x.shape[-2:])
    return x.expand(shape) if is_torch(x) else module_of(x).broadcast_to(x, shape)


def _flat(x: Any, axes: tuple[int, ...]) -> Any:
    """The reduced axes as one, last, in the order of the language (m, n within a matrix)."""
    order = sorted(axes, key=lambda a: a)
    kept = [a for a in range(x.ndim) if a - x.ndim not in axes]
    xp = module_of(x)
    moved = x.permute(*kept, *[a + x.ndim for a in order]) if is_torch(x) else xp.transpose(x, (*kept, *[a + x.ndim for a in order]))
    return moved.reshape(tuple(x.shape[a] for a in kept) + (math.prod(x.shape[a] for a in order),))


def _kept(x: Any, result: Any, axes: tuple[int, ...]) -> Any:
    return result.reshape(tuple(1 if a - x.ndim in axes else x.shape[a] for a in range(x.ndim)))


def _extreme(name: str) -> Callable[[Any, Any], Any]:
    empty = -math.inf if name.endswith("max") else math.inf

    def reduce(xp: Any, x: Any) -> Any:
        if x.shape[-1] == 0:
            return xp.full(tuple(x.shape[:-1]), empty)
        return getattr(xp, name)(x, axis=-1)
    return reduce


def _arg(name: str) -> Callable[[Any, Any], Any]:
    def reduce(xp: Any, x: Any) -> Any:
        if x.shape[-1] == 0:
            return xp.full(tuple(x.shape[:-1]), -1)
        return getattr(xp, name)(x, axis=-1)
    return reduce


def _logsumexp(xp: Any, x: Any) -> Any:
    if x.shape[-1] == 0:
        return xp.full(tuple(x.shape[:-1]), -math.inf)
    top = xp.amax(x, axis=-1, keepdims=True)
    base = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return xp.log(xp.sum(xp.exp(x - base), axis=-1)) + base[..., 0]


def _mean(xp: Any, x: Any) -> Any:
    return xp.sum(_real(xp, x), axis=-1) / x.shape[-1] if x.shape[-1] else xp.full(tuple(x.shape[:-1]), math.nan)


def _var(xp: Any, x: Any) -> Any:
    return _mean(xp, (x - _mean(xp, x)[..., None]) ** 2)


_reductions: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda xp, x: xp.sum(x, axis=-1),
    "mean": _mean,
    "max": _extreme("amax"),
    "min": _extreme("amin"),
    "prod": lambda xp, x: xp.prod(x, axis=-1),
    "any": lambda xp, x: xp.any(x != 0, axis=-1),
    "all": lambda xp, x: xp.all(x != 0, axis=-1),
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    "logsumexp": _logsumexp,
    "var": _var,
    "norm": lambda xp, x: xp.sqrt(xp.sum(_real(xp, x) ** 2, axis=-1)),
}


def _groups(x: Any, axis: int, group: int) -> list[Any]:
    if axis == 1:
        return [x[..., j:j + group] for j in range(0, x.shape[-1], group)]
    return [x[..., i:i + group, :] for i in range(0, x.shape[-2], group)]


def _join(xp: Any, parts: Sequence[Any], axis: int) -> Any:
    return xp.concatenate(list(parts), axis=-1 if axis == 1 else -2)


def reduction(op: str, x: Any, axis: Any = None, group: int | None = None, batch: bool = False) -> Any:
    xp = module_of(x)
    if xp is np:
        x = np.atleast_2d(x)
    if group:
        parts = [reduction(op, part, axis, None, batch) for part in _groups(x, axis, group)]
        return _join(xp, [part + i * group for i, part in enumerate(parts)] if op.startswith("arg") else parts, axis)
    if batch:
        x = _for_batches(x)
    axes = _axes(x, axis, batch)
    with np.errstate(all="ignore"):
        return _kept(x, _reductions[op](xp, _flat(x, axes)), axes)


def general_reduce(values: Sequence[Any], combine: Callable[..., Any], identity: Sequence[float], axis: Any = None,
                   group: int | None = None, batch: bool = False) -> tuple[Any, ...]:
    xp = module_of(*values)
    xs = list(np.broadcast_arrays(*values)) if xp is np else list(xp.broadcast_tensors(*values)) if is_torch(values[0]) else list(xp.broadcast_arrays(*values))
    if group:
        parts = [general_reduce(part, combine, identity, axis, None, batch) for part in zip(*[_groups(x, axis, group) for x in xs])]
        return tuple(_join(xp, piece, axis) for piece in zip(*parts))
    if batch:
        xs = [_for_batches(x) for x in xs]
    axes = _axes(xs[0], axis, batch)
    flat = [_flat(x, axes) for x in xs]
    if flat[0].shape[-1] == 0:
        folded = [xp.full((*f.shape[:-1], 1), i) for f, i in zip(flat, identity)]
    else:
        folded = flat
        while (n := folded[0].shape[-1]) > 1:  # halves, until one is left
            half = n // 2
            result = combine(*[f[..., :half] for f in folded], *[f[..., half:2 * half] for f in folded])
            both = result if isinstance(result, (tuple, list)) else (result,)
            folded = [xp.concatenate([r, f[..., 2 * half:]], axis=-1) for r, f in zip(both, folded)]
    return tuple(_kept(x, f[..., 0], axes) for x, f in zip(xs, folded))


def chunk(x: Any, k: int, group: int | None = None) -> tuple[Any, ...]:
    columns = x.shape[-1]
    width = group or columns
    if columns % width or width % k:
        raise error("indivisible", f"{columns} columns are not divisible into {k} pieces of every {width}", "")
    blocks = x.reshape((*x.shape[:-1], columns // width, k, width // k))
    return tuple(blocks[..., i, :].reshape((*x.shape[:-1], columns // k)) for i in range(k))


def concat(parts: Sequence[Any], group: int | None = None) -> Any:
    xp = module_of(*parts)
    xs = list(np.broadcast_arrays(*parts)) if xp is np else list(parts)
    columns = xs[0].shape[-1] * len(xs)
    width = group or columns
    split = [x.reshape((*x.shape[:-1], columns // width, width // len(xs))) for x in xs]
    return xp.concatenate(split, axis=-1).reshape((*xs[0].shape[:-1], columns))


def repeat(x: Any, group: int, axis: int = 1) -> Any:
    """Over `group` columns or rows, cut at the output's extent, which the last group may not fill."""
    g = _current.grid
    along = -1 if axis == 1 else -2
    repeated = x.repeat_interleave(group, along) if is_torch(x) else module_of(x).repeat(x, group, along)
    extent = None if g is None else g.columns if axis == 1 else g.rows
    return repeated[..., :extent] if axis == 1 else repeated[..., :extent, :]


@functools.lru_cache(maxsize=1)
def prelude() -> dict[str, Callable[..., Any]]:
    """The language's own functions, from the text that defines them, over these operations."""
    from importlib.resources import files

    names: dict[str, Any] = {**public, "inf": math.inf, "nan": math.nan, "__builtins__": {}}
    text = files("postlude").joinpath("epilogues/prelude.py").read_text("utf-8")
    exec(compile(text, "prelude.py", "exec"), names)  # noqa: S102 -- a file of this package
    return names
