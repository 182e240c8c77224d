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
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from . import _core
from ._core import LoopAxis as Axis, LoopExpr as Expr, LoopModule, LoopSchedule, LoopStage, LoopTensor
from ._public import public
from .dtypes import DType, Round, as_dtype, as_round
from .epilogue import Epilogue
from .errors import error, missing_attribute, refusing, utf8

_names = {
    "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "s8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "bool": "bool",
}
_integers = ("int8", "uint8", "int32", "int64")


_F = TypeVar("_F", bound=Callable[..., Any])


def _typed(function: _F, of: str = "te.", name: str = "") -> _F:
    """The function, which refuses in our words arguments that are missing, too many or unknown."""
    name = name or function.__name__
    signature = inspect.signature(function)
    takes = [str(p.replace(annotation=p.empty)) for p in signature.parameters.values() if p.name != "self"]
    return functools.wraps(function)(refusing(function, signature, name, f"{of}{name}({', '.join(takes)})"))  # type: ignore[return-value]


def _dtype(item: Any) -> DType:
    dtype = as_dtype(item)
    if dtype is None:
        raise error("unknown_dtype", f"{item!r} is no element type", "They are float32, float16, bfloat16, int32, bool, ...")
    return dtype


def _name(dtype: DType) -> str:
    return _names[str(dtype).rpartition(".")[2]]


def _integer(dtype: DType) -> Any:
    """numpy's type of an integer one, None of others."""
    return np.dtype(_name(dtype)) if _name(dtype) in _integers else None


# What a call takes, by what it is called in messages: its type, and what to pass.
_takes = {
    "a loop": (Axis, "Loops are s[B].op.axis, s[B].op.reduce_axis, and what split and fuse give."),
    "a reduce axis": (Axis, "Make it with te.reduce_axis."),
    "a thread axis": (Axis, 'Make it with te.thread_axis("threadIdx.x").'),
    "a stage": (LoopStage, "A stage is s[B], of a schedule s."),
    "a tensor": (LoopTensor, "Pass what te.placeholder or te.compute gives."),
    "a name": (str, "Pass a string."),
    "a target": (str, 'It is "cpu", "cuda" or an architecture: "sm_90a".'),
    "a function": (Callable, "Pass a function of the axes, or of the values that it combines."),
    "a condition": (Expr, 'Compare: s[B].set_store_predicate(te.thread_axis("threadIdx.x").var.equal(0)).'),
}


def _is(kind: str, item: Any, call: str) -> Any:
    """The item, if it is what a call takes."""
    if not isinstance(item, _takes[kind][0]) or (isinstance(item, str) and utf8(item) != item):
        raise error("usage", f"{call}: {item!r} is not {kind}", _takes[kind][1])
    return item


def _call(function: Callable[..., Any], name: str, what: str, arguments: Sequence[Any]) -> Any:
    """function(*arguments), which is refused in our words if it takes another number of them."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as failure:
        raise error("bad_call", f"the function of {name!r} takes no {len(arguments)} {what}: {failure}",
                    f"It has a parameter for each of the {what}.") from None
    except ValueError:  # a builtin, which does not say what it takes
        pass
    return function(*arguments)


def _number(item: Any, call: str, hint: str = "A factor is a number from 1 to 2^31 - 1.") -> Any:
    try:
        number = operator.index(item)
    except TypeError:
        number = 1 << 63
    if isinstance(item, bool) or abs(number) >> 63:
        raise error("bad_attribute", f"{call} {item!r}", hint)
    return number


def _axes(axis: Any, call: str, kind: str = "a reduce axis") -> list[Axis]:
    return [_is(kind, each, call) for each in (axis if isinstance(axis, (list, tuple)) else [axis])]


def _shape(shape: Any, name: str) -> list[Any]:
    try:
        if not isinstance(shape, (str, Expr, LoopTensor)):
            return list(shape)
    except TypeError:
        pass
    raise error("usage", f"the shape of {name!r} is {shape!r}", "A shape is a tuple of sizes: (n, m), or (n,).")


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
Expr.astype = _typed(lambda self, dtype: cast(self, dtype), "x.", "astype")


def _equal(inner: Callable[..., Any]) -> Callable[..., Any]:
    def equal(self: Any, other: Any) -> Any:
        return inner(self, other)
    return _typed(equal, "x.")


Expr.equal, Axis.equal = _equal(Expr.equal), _equal(Axis.equal)


def _no_element(self: Tensor, *_: object) -> Any:
    raise error("usage", f"{self.name!r} is a tensor, and operations are of its elements", "An element is read as A[i, k].")


def _one_number(self: Expr | Axis) -> Any:
    raise error("unsupported_syntax", f"{self!r} is one number, and is not iterated over",
                "What goes over elements is a reduction: te.sum(x, axis=k), te.max(x, axis=k), ...")


def _no_operator(token: str) -> Callable[..., Any]:
    def refuse(*_: object) -> Any:
        raise error("unsupported_syntax", *_core.refused_operator(token))
    return refuse


for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "matmul", "lshift", "rshift"):
    for _side in ("", "r"):
        setattr(Tensor, f"__{_side}{_operator}__", _no_element)
for _operator in ("neg", "pos", "invert", "abs", "lt", "le", "gt", "ge", "iter"):
    setattr(Tensor, f"__{_operator}__", _no_element)
Expr.__iter__ = Axis.__iter__ = _one_number
for _operator, _token in {"xor": "^", "matmul": "@", "lshift": "<<", "rshift": ">>"}.items():
    for _class in (Expr, Axis):
        for _side in ("", "r"):
            setattr(_class, f"__{_side}{_operator}__", _no_operator(_token))


# expressions

@_typed
def var(name: str = "n", dtype: Any = None) -> Expr:
    """A size, known when arrays are bound."""
    return _core.loop_var(_is("a name", name, "var"))


@_typed
def const(value: Any, dtype: Any = "float32") -> Expr:
    """A number of a type, which has to have it; floats are rounded to theirs."""
    dtype = _dtype(dtype)
    kind = _integer(dtype)
    if isinstance(value, np.number):
        value = value.item()
    if (kind is not None or _name(dtype) == "bool") and isinstance(value, (int, float)):
        low, high = (0, 1) if kind is None else (np.iinfo(kind).min, np.iinfo(kind).max)
        if not (low <= value <= high and value == int(value)):
            raise error("bad_attribute", f"const: {value!r} is no {_name(dtype)}", f"It has the integers from {low} to {high}.")
    return _core.loop_const(value, dtype)


@_typed
def placeholder(shape: Sequence[Any], dtype: Any = "float32", name: str = "placeholder") -> Tensor:
    """A tensor that the caller binds."""
    return _core.loop_placeholder(_shape(shape, name), _is("a name", name, "placeholder"), _dtype(dtype))


@_typed
def reduce_axis(dom: tuple[Any, Any], name: str = "rv") -> Axis:
    """What a reduction runs over: from the first up to, and without, the second."""
    if not isinstance(dom, (list, tuple)) or len(dom) != 2:
        raise error("usage", f"reduce_axis: {dom!r} is not a range", "It runs from a number up to another: te.reduce_axis((0, m)).")
    return _core.loop_reduce_axis(dom[0], dom[1], _is("a name", name, "reduce_axis"))


@_typed
def thread_axis(dom: Any = None, tag: str = "") -> Axis:
    """Blocks or threads of a GPU: "blockIdx.x", "threadIdx.y"; their number is that of the loop that is bound.

    `dom`: (0, number), which that loop then has to have.
    """
    if isinstance(dom, str):
        dom, tag = None, dom
    if isinstance(dom, (list, tuple)):
        if len(dom) != 2 or not (isinstance(dom[0], int) and dom[0] == 0):
            raise error("usage", f"thread_axis: {dom!r} is not a range from 0", 'te.thread_axis((0, 32), "threadIdx.x")')
        dom = dom[1]
    return _core.loop_thread_axis(_is("a name", tag, "thread_axis"), dom)


@_typed
def compute(shape: Sequence[Any], fcompute: Callable[..., Any], name: str = "compute", dtype: Any = None) -> Any:
    """A stage: fcompute gives the element at its axes, or a tuple of elements for a tuple of tensors."""
    _is("a function", fcompute, "compute"), _is("a name", name, "compute")
    shape = _shape(shape, name)
    try:
        names = [p.name for p in inspect.signature(fcompute).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    except ValueError:  # of a builtin
        names = []
    results: Any = None

    def body(*axes: Axis) -> Any:
        nonlocal results
        results = _call(fcompute, name, "axes", axes)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    made = _core.loop_compute(shape, body, name, None, names, True)
    if isinstance(results, (list, tuple)):
        if dtype is not None:
            raise error("bad_call", f"compute of {name!r}: a dtype of several outputs", "te.cast(x, dtype) rounds one of them.")
        return tuple(made)
    if dtype is None:
        return made[0]
    return _core.loop_compute(shape, fcompute, name, _dtype(dtype), names, False)[0]


@_typed
def cast(x: Any, dtype: Any, round: Any = Round.nearest_even) -> Expr:
    """x rounded to a dtype, as in the epilogue language; `round`: nearest_even, toward_zero, up or down."""
    how = as_round(round)
    if how is None:
        raise error("bad_attribute", "an unknown way to round", "There are nearest_even, toward_zero, up and down.")
    return _core.loop_cast(x, _dtype(dtype), how)


@_typed
def where(condition: Any, a: Any, b: Any) -> Expr:
    """a where the condition holds, else b; the one that is not chosen is not read."""
    return _core.loop_apply("where", [condition, a, b])


if_then_else = where


@_typed
def min_value(dtype: Any) -> Expr:
    """The least of a type: what changes no maximum."""
    return _extreme(_dtype(dtype), False)


@_typed
def max_value(dtype: Any) -> Expr:
    """The largest of a type: what changes no minimum."""
    return _extreme(_dtype(dtype), True)


def _extreme(dtype: DType, largest: bool) -> Expr:
    if _name(dtype) == "bool":
        return const(largest, dtype)
    kind = _integer(dtype)
    if kind is None:
        return const(float("inf" if largest else "-inf"), dtype)
    return const(int(np.iinfo(kind).max if largest else np.iinfo(kind).min), dtype)


# reductions

def _is_reduced_over(item: Any) -> bool:
    return item.is_reduced if isinstance(item, Axis) else isinstance(item, (list, tuple))


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(x: Any, *others: Any, axis: Any = None, where: Any = None) -> Any:
        if name in ("min", "max") and others and not _is_reduced_over(others[0]):
            return _core.loop_apply(name, [x, *others])
        if name in ("any", "all") and axis is None and where is None and not (others and isinstance(others[0], (Axis, list, tuple))):
            for each in (x, *others):
                if not (isinstance(each, (bool, np.bool_)) or isinstance(each, Expr) and each.dtype == "bool"):
                    raise error("usage", f"{name}: {each!r} is not a condition", f"Compare: te.{name}(i >= 1, i < n).")
            return functools.reduce(operator.or_ if name == "any" else operator.and_, [x, *others])
        if len(others) > 1 or (others and axis is not None):
            raise error("bad_call", f"{name} reduces one value over one list of axes", f"te.{name}(x, axis=[di, dj])")
        if not others and axis is None:
            raise error("usage", f"{name}: no axis is reduced", f"Name it: te.{name}(x, axis=k), where k is of te.reduce_axis.")
        axes = _axes(others[0] if others else axis, name)
        results = _core.loop_reduce(name, x, axes, where)
        return tuple(results) if len(results) > 1 else results[0]

    reduce.__name__ = reduce.__qualname__ = name
    return _typed(reduce)


sum, prod, min, max = _reduction("sum"), _reduction("prod"), _reduction("min"), _reduction("max")
any, all, argmax, argmin = _reduction("any"), _reduction("all"), _reduction("argmax"), _reduction("argmin")


@_typed
def comm_reducer(fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce") -> Callable[..., Any]:
    """A reduction of one's own: fcombine of two elements (or two tuples), and what changes nothing, by dtype."""
    for function in (fcombine, fidentity):
        _is("a function", function, "comm_reducer")

    def several(items: Any) -> list[Any]:
        return list(items) if isinstance(items, (list, tuple)) else [items]

    def combine(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> list[Any]:
        return several(_call(fcombine, name, "values", (a[0], b[0]) if len(a) == 1 else (a, b)))

    def identity(types: tuple[DType, ...]) -> list[Any]:
        return several(_call(fidentity, name, "types", [_name(t) for t in types]))

    reducer = _core.loop_reducer(combine, identity, _is("a name", name, "comm_reducer"))

    def reduce(values: Any, axis: Any, where: Any = None) -> Any:
        results = reducer(several(values), _axes(axis, name), where)
        return tuple(results) if len(results) > 1 else results[0]

    reduce.__name__ = reduce.__qualname__ = name
    return _typed(reduce, "")


@_typed
def epilogue(accumulator: Tensor, f: Any, *, columns: int = -1, **operands: Tensor) -> Any:
    """The outputs of an epilogue whose accumulator is a computed tensor: a tensor, or a tuple of them.

    The columns are the tensor's last axis unless `columns` says which; the rows are all others.
    """
    _is("a tensor", accumulator, "epilogue")
    if not isinstance(f, Epilogue):
        f = Epilogue(f)
    _core.refuse_unknown([operand.name for operand in f.operands], operands)
    bits = []
    for operand in f.operands:
        tensor = operands.get(operand.name)
        if tensor is None:
            raise error("missing_operand", f"the operand {operand.name!r} of the epilogue is not given")
        _is("a tensor", tensor, "epilogue")
        bits.append(operand.axes if operand.axes is not None else {0: 0, accumulator.ndim: 6}.get(tensor.ndim, -1))
        if bits[-1] < 0:
            raise error("bad_call", f"the class of the operand {operand.name!r} is not known",
                        f"Annotate it: {operand.name}: post.row, or post.col.", operand.place)
    columns = _number(columns, "epilogue of columns", "Columns are an axis of the tensor: -1 is its last.")
    if columns.bit_length() > 31:
        raise error("wrong_rank", f"{accumulator.name!r} has no axis {columns}")
    made = _core.loop_follow(accumulator, f.graph_of(tuple(bits)), list(operands.items()), columns)
    return made[0] if len(made) == 1 else tuple(made)


# schedules

class Module:
    """A nest built for a target. Call it with an array for each argument, outputs too."""

    def __init__(self, module: LoopModule, names: list[str]) -> None:
        self._module, self._names = module, names

    def __call__(self, *arrays: Any, **named: Any) -> None:
        if named:
            raise error("bad_call", f"arrays are given in order: {', '.join(self._names)}; not by name, as {next(iter(named))!r}")
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


@_typed
def create_schedule(ops: Any) -> LoopSchedule:
    """The loops of a stage, or of several, and of all that they need, as they are described."""
    return _core.loop_schedule(_tensors(ops))


@_typed
def choose_schedule(ops: Any, target: Any = "cpu") -> LoopSchedule:
    """A good schedule for a target; its `calls` say what was chosen."""
    return _core.loop_choose(_tensors(ops), _target(target))


def _target(target: Any) -> _core.Target:
    if isinstance(target, _core.Target):
        return target
    return _core.Target.parse("cpu" if _is("a target", target, "target") == "llvm" else target)


def _schedule(s: Any, target: Any) -> LoopSchedule:
    return s if isinstance(s, LoopSchedule) else choose_schedule(s, target)


def _arguments(args: Any) -> list[Tensor]:
    return _tensors(list(args) if isinstance(args, (list, tuple)) else args)


@_typed
def lower(s: LoopSchedule, args: Sequence[Tensor], simple_mode: bool = True, name: str = "main") -> str:
    """The loop nest that a schedule means."""
    return _core.loop_lower(_schedule(s, "cpu"), _arguments(args))


@_typed
def build(s: Any, args: Sequence[Tensor], target: Any = "cpu", name: str = "main") -> Module:
    """The nest as code of a target: "cpu", "cuda", or an architecture such as "sm_90a".

    `s`: a schedule, or the tensors to compute, whose schedule is chosen then, on a GPU for the sizes of a call.
    """
    tensors = _arguments(args)
    made = (_core.loop_build if isinstance(s, LoopSchedule) else _core.loop_build_chosen)(
        s if isinstance(s, LoopSchedule) else _tensors(s), tensors, _target(target))
    return Module(made, [tensor.name for tensor in tensors])


def _split(self: LoopStage, parent: Axis, factor: int | None = None, nparts: int | None = None) -> tuple[Axis, Axis]:
    """Two loops in place of one: the inner of `factor` iterations, or the outer of `nparts`."""
    if (factor is None) == (nparts is None):
        raise error("bad_call", f"split of {parent!r} takes either factor or nparts", "Write s[B].split(k, factor=16).")
    _is("a loop", parent, "split")
    given = _number(factor if nparts is None else nparts, f"split of {parent!r} into")
    return tuple(self._split(parent, given) if nparts is None else self._split_parts(parent, given))


def _loops(call: str, axes: tuple[Any, ...]) -> list[Axis]:
    if len(axes) == 1 and isinstance(axes[0], (list, tuple)):
        axes = tuple(axes[0])
    if not axes:
        raise error("bad_call", f"{call}: of no loop", f"s[B].{call}(a, b)")
    return _axes(axes, call, "a loop")


def _fuse(self: LoopStage, *axes: Axis) -> Axis:
    """One loop in place of loops that stand directly in each other."""
    return self._fuse(_loops("fuse", axes))


def _rfactor(self: LoopSchedule, tensor: Tensor, axis: Any, factor_axis: int = 0) -> Any:
    """The partial results of a reduction over all but `axis`, which the stage then reduces."""
    made = self._rfactor(_is("a tensor", tensor, "rfactor"), _axes(axis, "rfactor", "a loop"),
                         _number(factor_axis, "rfactor at"))
    return made[0] if len(made) == 1 else tuple(made)


def _cache_write(self: LoopSchedule, tensor: Tensor, scope: str = "local") -> Any:
    """A stage that computes what the tensor's stage then copies."""
    made = self._cache_write(_is("a tensor", tensor, "cache_write"), _is("a name", scope, "cache_write"))
    return made[0] if len(made) == 1 else tuple(made)


def _cache_read(self: LoopSchedule, tensor: Tensor, scope: str, readers: Any) -> Tensor:
    """A copy of a tensor that these stages then read."""
    return self._cache_read(_is("a tensor", tensor, "cache_read"), _is("a name", scope, "cache_read"), _tensors(readers))


def _taking(call: str, **kinds: str) -> None:
    """Says of a stage's call what it takes, so that anything else is refused in its words."""
    inner, names = getattr(LoopStage, call), list(kinds)

    def method(self: LoopStage, *given: Any, **named: Any) -> Any:
        items = dict(zip(names, given)) | named
        if len(given) + len(named) != len(names) or items.keys() != kinds.keys():
            raise error("bad_call", f"{call} takes {', '.join(names) or 'nothing'}")
        return inner(self, *(_number(items[n], f"{call} by") if kinds[n] == "a number" else _is(kinds[n], items[n], call)
                             for n in names))

    method.__name__ = method.__qualname__ = call
    method.__doc__ = inner.__doc__
    setattr(LoopStage, call, method)


LoopStage.split = _typed(_split, "s[B].", "split")
LoopStage.fuse = _typed(_fuse, "s[B].", "fuse")
LoopStage.reorder = _typed(lambda self, *axes: self._reorder(_loops("reorder", axes)), "s[B].", "reorder")
LoopSchedule.rfactor = _typed(_rfactor, "s.", "rfactor")
LoopSchedule.cache_read = _typed(_cache_read, "s.", "cache_read")
LoopSchedule.cache_write = _typed(_cache_write, "s.", "cache_write")
_taking("tile", x_parent="a loop", y_parent="a loop", x_factor="a number", y_factor="a number")
for _marking in ("unroll", "vectorize", "parallel"):
    _taking(_marking, axis="a loop")
_taking("bind", axis="a loop", thread="a thread axis")
_taking("compute_at", parent="a stage", axis="a loop")
for _placing in ("compute_inline", "compute_root"):
    _taking(_placing)
_taking("set_scope", scope="a name")
_taking("set_store_predicate", condition="a condition")


def __getattr__(name: str) -> Any:
    """The other elementwise operations of the epilogue language: te.exp, te.gelu, ..."""
    if name.startswith("_"):
        raise AttributeError(f"module 'postlude.te' has no attribute {name!r}")
    if name not in public:
        guess = _core.closest(name, [*public, *(other for other in globals() if not other.startswith("_"))])
        raise missing_attribute("undefined_name", f"postlude.te has no {_core.quoted(name)}", f"Did you mean '{guess}'?" if guess else
                                _core.synonym(name) or "It has the elementwise operations that help(post.ops) lists, and reductions.")

    def operation(*arguments: Any) -> Expr:
        return _core.loop_apply(name, list(arguments))

    operation.__name__ = operation.__qualname__ = name
    return _typed(operation)
