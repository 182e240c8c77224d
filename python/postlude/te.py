"""Reductions described as expressions and scheduled by hand as loops.

    from postlude import te

    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(k, factor=16)
    print(te.lower(s, [A, B]))
    te.build(s, [A, B])(a, b)

Sizes stay symbolic: one build serves all. docs/loops.md is the whole definition.
"""
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _core
from ._core import LoopAxis as Axis, LoopExpr as Expr, LoopModule, LoopSchedule, LoopStage, LoopTensor
from ._public import public
from .dtypes import DType, Round, as_dtype, as_round
from .epilogue import Epilogue
from .errors import error

_names = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "s8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "bool": "bool",
}


def _dtype(item: Any) -> DType:
    dtype = as_dtype(item)
    if dtype is None:
        raise error("unknown_dtype", f"{item!r} is no element type", "They are float32, float16, bfloat16, int32, bool, ...")
    return dtype


def _name(dtype: DType) -> str:
    return _names[str(dtype).rpartition(".")[2]]


def _axes(axis: Any) -> list[Axis]:
    return list(axis) if isinstance(axis, (list, tuple)) else [axis]


def _tensors(item: Any) -> list[Tensor]:
    tensors = [tensor for each in (item if isinstance(item, (list, tuple)) else [item]) for tensor in
               (_core.loop_outputs(each) if isinstance(each, _core.LoopOperation) else [each])]
    for tensor in tensors:
        if not isinstance(tensor, LoopTensor):
            raise error("usage", f"{tensor!r} is no tensor", "Pass what te.placeholder or te.compute gives.")
    return tensors


Tensor = LoopTensor
Tensor.dtype = property(lambda self: _name(self.type), doc="The element type, by numpy's name.")
Tensor.ndim = property(lambda self: len(self.shape))
Expr.dtype = property(lambda self: _name(self.type), doc="The type in which it is computed, by numpy's name.")
Expr.astype = lambda self, dtype: cast(self, dtype)


# expressions

def var(name: str = "n", dtype: Any = None) -> Expr:
    """A size, known when arrays are bound."""
    return _core.loop_var(name)


def const(value: Any, dtype: Any = "float32") -> Expr:
    """A number of a type."""
    return _core.loop_const(value, _dtype(dtype))


def placeholder(shape: Sequence[Any], dtype: Any = "float32", name: str = "placeholder") -> Tensor:
    """A tensor that the caller binds."""
    return _core.loop_placeholder(list(shape), name, _dtype(dtype))


def reduce_axis(dom: tuple[Any, Any], name: str = "rv") -> Axis:
    """What a reduction runs over: from the first up to, and without, the second."""
    return _core.loop_reduce_axis(dom[0], dom[1], name)


def thread_axis(dom: Any = None, tag: str = "") -> Axis:
    """Blocks or threads of a GPU: "blockIdx.x", "threadIdx.y"; their number is that of the loop that is bound."""
    return _core.loop_thread_axis(dom if isinstance(dom, str) else tag)


def compute(shape: Sequence[Any], fcompute: Callable[..., Any], name: str = "compute", dtype: Any = None) -> Any:
    """A stage: fcompute gives the element at its axes, or a tuple of elements for a tuple of tensors."""
    names = [p.name for p in inspect.signature(fcompute).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    several = False

    def body(*axes: Axis) -> Any:
        nonlocal several
        result = fcompute(*axes)
        several = isinstance(result, (list, tuple))
        return list(result) if several else [result]

    made = _core.loop_compute(list(shape), body, name, None, names, True)
    if several:
        return tuple(made)
    if dtype is None:
        return made[0]
    return _core.loop_compute(list(shape), fcompute, name, _dtype(dtype), names, False)[0]


def cast(x: Any, dtype: Any, round: Any = Round.nearest_even) -> Expr:
    """x rounded to a dtype, as in the epilogue language; `round`: nearest_even, toward_zero, up or down."""
    how = as_round(round)
    if how is None:
        raise error("bad_attribute", "an unknown way to round", "There are nearest_even, toward_zero, up and down.")
    return _core.loop_cast(x, _dtype(dtype), how)


def where(condition: Any, a: Any, b: Any) -> Expr:
    """a where the condition holds, else b; the one that is not chosen is not read."""
    return _core.loop_apply("where", [condition, a, b])


if_then_else = where


def min_value(dtype: Any) -> Expr:
    """The least of a type: what changes no maximum."""
    return _extreme(_dtype(dtype), False)


def max_value(dtype: Any) -> Expr:
    """The largest of a type: what changes no minimum."""
    return _extreme(_dtype(dtype), True)


def _extreme(dtype: DType, largest: bool) -> Expr:
    kind = np.dtype(_name(dtype)) if _name(dtype) in ("int8", "uint8", "int32", "int64") else None
    if kind is None:
        return const(float("inf" if largest else "-inf"), dtype)
    return const(int(np.iinfo(kind).max if largest else np.iinfo(kind).min), dtype)


# reductions

def _reduction(name: str) -> Callable[..., Any]:
    def reduce(x: Any, *others: Any, axis: Any = None, where: Any = None) -> Any:
        if others and not isinstance(others[0], (Axis, list, tuple)):
            if name in ("min", "max"):
                return _core.loop_apply(name, [x, *others])
            if name in ("any", "all"):  # of conditions
                join = (lambda a, b: a | b) if name == "any" else (lambda a, b: a & b)
                return functools.reduce(join, [x, *others])
        axes = _axes(others[0] if others else axis)
        results = _core.loop_reduce(name, x, axes, where)
        return tuple(results) if len(results) > 1 else results[0]

    reduce.__name__ = reduce.__qualname__ = name
    return reduce


sum, prod, min, max = _reduction("sum"), _reduction("prod"), _reduction("min"), _reduction("max")
any, all, argmax, argmin = _reduction("any"), _reduction("all"), _reduction("argmax"), _reduction("argmin")


def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce") -> Callable[..., Any]:
    """A reduction of one's own: fcombine of two elements (or two tuples), and what changes nothing, by dtype."""
    def several(items: Any) -> list[Any]:
        return list(items) if isinstance(items, (list, tuple)) else [items]

    def combine(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> list[Any]:
        return several(fcombine(a[0], b[0]) if len(a) == 1 else fcombine(a, b))

    reducer = _core.loop_reducer(combine, lambda types: several(fidentity(*map(_name, types))), name)

    def reduce(values: Any, axis: Any, where: Any = None) -> Any:
        results = reducer(several(values), _axes(axis), where)
        return tuple(results) if len(results) > 1 else results[0]

    reduce.__name__ = reduce.__qualname__ = name
    return reduce


def epilogue(accumulator: Tensor, f: Any, *, columns: int = -1, **operands: Tensor) -> Any:
    """The outputs of an epilogue whose accumulator is a computed tensor: a tensor, or a tuple of them.

    The columns are the tensor's last axis unless `columns` says which; the rows are all others.
    """
    if not isinstance(f, Epilogue):
        f = Epilogue(f)
    _core.refuse_unknown([operand.name for operand in f.operands], operands)
    bits = []
    for operand in f.operands:
        tensor = operands.get(operand.name)
        if tensor is None:
            raise error("missing_operand", f"the operand {operand.name!r} of the epilogue is not given")
        bits.append(operand.axes if operand.axes is not None else {0: 0, accumulator.ndim: 6}.get(tensor.ndim, -1))
        if bits[-1] < 0:
            raise error("bad_call", f"the class of the operand {operand.name!r} is not known",
                        f"Annotate it: {operand.name}: post.row, or post.col.", operand.place)
    made = _core.loop_follow(accumulator, f.graph_of(tuple(bits)), list(operands.items()), columns)
    return made[0] if len(made) == 1 else tuple(made)


# schedules

class Module:
    """A nest built for a target. Call it with an array for each argument, outputs too."""

    def __init__(self, module: LoopModule, names: list[str]) -> None:
        self._module, self._names = module, names

    def __call__(self, *arrays: Any) -> None:
        self._module._run(arrays, self._names)

    @property
    def source(self) -> str:
        """The source of a GPU's kernels; on a CPU the nest."""
        return self._module.source

    def explain(self) -> str:
        """What runs, and why: a main loop, or the nest and the calls that scheduled it."""
        return self._module.explain()

    def get_source(self) -> str:
        return self.source

    @property
    def imported_modules(self) -> list[Module]:
        return [self]

    def __repr__(self) -> str:
        return repr(self._module)


def create_schedule(ops: Any) -> LoopSchedule:
    """The loops of a stage, or of several, and of all that they need, as they are described."""
    return _core.loop_schedule(_tensors(ops))


def choose_schedule(ops: Any, target: Any = "cpu") -> LoopSchedule:
    """A good schedule for a target; its `calls` say what was chosen."""
    return _core.loop_choose(_tensors(ops), _target(target))


def _target(target: Any) -> _core.Target:
    return target if isinstance(target, _core.Target) else _core.Target.parse("cpu" if target == "llvm" else target)


def _schedule(s: Any, target: Any) -> LoopSchedule:
    return s if isinstance(s, LoopSchedule) else choose_schedule(s, target)


def lower(s: LoopSchedule, args: Sequence[Tensor], simple_mode: bool = True, name: str = "main") -> str:
    """The loop nest that a schedule means."""
    return _core.loop_lower(_schedule(s, "cpu"), _tensors(list(args)))


def build(s: Any, args: Sequence[Tensor], target: Any = "cpu", name: str = "main") -> Module:
    """The nest as code of a target: "cpu", "cuda", or an architecture such as "sm_90a".

    `s`: a schedule, or the tensors to compute, whose schedule is chosen then, on a GPU for the sizes of a call.
    """
    tensors = _tensors(list(args))
    made = (_core.loop_build if isinstance(s, LoopSchedule) else _core.loop_build_chosen)(
        s if isinstance(s, LoopSchedule) else _tensors(s), tensors, _target(target))
    return Module(made, [tensor.name for tensor in tensors])


def _split(self: LoopStage, parent: Axis, factor: int | None = None, nparts: int | None = None) -> tuple[Axis, Axis]:
    """Two loops in place of one: the inner of `factor` iterations, or the outer of `nparts`."""
    if (factor is None) == (nparts is None):
        raise error("bad_call", f"split of {parent!r} takes either factor or nparts")
    given = factor if nparts is None else nparts
    if not hasattr(given, "__index__") or abs(given) >> 63:
        raise error("bad_attribute", f"split of {parent!r} into {given!r}", "A factor is a number from 1 to 2^31 - 1.")
    return tuple(self._split(parent, given) if nparts is None else self._split_parts(parent, given))


def _fuse(self: LoopStage, *axes: Axis) -> Axis:
    """One loop in place of loops that stand directly in each other."""
    fused = axes[0]
    for axis in axes[1:]:
        fused = self._fuse(fused, axis)
    return fused


def _rfactor(self: LoopSchedule, tensor: Tensor, axis: Any, factor_axis: int = 0) -> Any:
    """The partial results of a reduction over all but `axis`, which the stage then reduces."""
    made = self._rfactor(tensor, _axes(axis), factor_axis)
    return made[0] if len(made) == 1 else tuple(made)


def _cache_write(self: LoopSchedule, tensor: Tensor, scope: str = "local") -> Any:
    """A stage that computes what the tensor's stage then copies."""
    made = self._cache_write(tensor, scope)
    return made[0] if len(made) == 1 else tuple(made)


LoopStage.split = _split
LoopStage.fuse = _fuse
LoopStage.reorder = lambda self, *axes: self._reorder(list(axes))
LoopSchedule.rfactor = _rfactor
LoopSchedule.cache_read = lambda self, tensor, scope, readers: self._cache_read(tensor, scope, _tensors(readers))
LoopSchedule.cache_write = _cache_write


def __getattr__(name: str) -> Any:
    """The other elementwise operations of the epilogue language: te.exp, te.gelu, ..."""
    if name.startswith("_") or name not in public:
        raise AttributeError(f"module 'postlude.te' has no attribute {name!r}")

    def operation(*arguments: Any) -> Expr:
        return _core.loop_apply(name, list(arguments))

    operation.__name__ = operation.__qualname__ = name
    return operation
