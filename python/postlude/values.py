"""Symbolic values: what the accumulator and the operands are while an epilogue's function runs to become a graph."""
from __future__ import annotations

import ast
import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import numpy as np

from . import _core
from ._public import public
from ._where import place_of, span_of, user_frame
from .dtypes import as_dtype
from .errors import error, missing_attribute

if TYPE_CHECKING:
    from .dtypes import AnyDType


class Trace:
    """A graph that grows while a function runs."""

    def __init__(self, name: str) -> None:
        self.builder = _core.GraphBuilder(name)
        self.combining = 0  # inside a combiner, whose nodes belong to another builder

    def locate(self) -> None:
        """Nodes made from here on come from the user's current line."""
        frame = user_frame()
        if frame is not None and not self.combining:
            self.builder.at(*place_of(frame))


class _Current(threading.local):
    trace: Trace | None = None


_current = _Current()


def current_trace() -> Trace | None:
    return _current.trace


@contextlib.contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    before, _current.trace = _current.trace, trace
    try:
        yield
    finally:
        _current.trace = before


def node_of(item: Any) -> Any:
    """What a graph takes for `item`: a value's node, or a number."""
    if isinstance(item, Value):
        return item._node
    if isinstance(item, np.generic) or (isinstance(item, np.ndarray) and item.ndim == 0):
        item = item.item()
    if isinstance(item, (bool, int, float)):
        return item
    if isinstance(item, tuple) and item and isinstance(item[0], Value):
        raise error("bad_call", f"this is a tuple of {len(item)} where one value is needed",
                    "Take it apart: p, = reduce((x,), ...), or a, b = ....")
    shape = getattr(item, "shape", None)
    what = f"a {type(item).__name__}" + (f" of shape {tuple(shape)}" if shape is not None else "")
    if shape is not None:
        hint = "An array enters as an operand: add a parameter, such as `x: post.row`, and pass the array at the call."
    else:
        hint = "An epilogue computes with its parameters, numbers and what follows from them."
    raise error("type_mismatch", f"{what} meets a value of the epilogue", hint)


def trace_of(*items: Any) -> Trace:
    for item in items:
        if isinstance(item, Value):
            item._trace.locate()
            return item._trace
    raise AssertionError("no symbolic value")


def apply(op: str, *items: Any) -> Value:
    """One operation of the op table on at least one symbolic value."""
    trace = trace_of(*items)
    return Value(_core.apply(op, [node_of(item) for item in items]), trace)


def call(function: str, *items: Any) -> Value:
    """One function of the language on at least one symbolic value."""
    trace = trace_of(*items)
    return Value(_core.call(function, [node_of(item) for item in items]), trace)


class Value:
    """A value of an epilogue: has axes and a type, but no numbers until a plan runs."""

    __slots__ = ("_node", "_trace")
    __array_priority__ = 1000

    def __init__(self, node: _core.Node, trace: Trace) -> None:
        self._node, self._trace = node, trace

    def __add__(self, other: Number) -> Value: return apply("add", self, other)
    def __radd__(self, other: Number) -> Value: return apply("add", other, self)
    def __sub__(self, other: Number) -> Value: return apply("sub", self, other)
    def __rsub__(self, other: Number) -> Value: return apply("sub", other, self)
    def __mul__(self, other: Number) -> Value: return apply("mul", self, other)
    def __rmul__(self, other: Number) -> Value: return apply("mul", other, self)
    def __truediv__(self, other: Number) -> Value: return apply("div", self, other)
    def __rtruediv__(self, other: Number) -> Value: return apply("div", other, self)
    def __floordiv__(self, other: Number) -> Value: return apply("floordiv", self, other)
    def __rfloordiv__(self, other: Number) -> Value: return apply("floordiv", other, self)
    def __mod__(self, other: Number) -> Value: return call("mod", self, other)
    def __rmod__(self, other: Number) -> Value: return call("mod", other, self)
    def __pow__(self, other: Number, modulo: object = None) -> Value:
        if modulo is not None:
            raise error("unsupported_syntax", "a power by a modulus", "Write a ** b % c.")
        return apply("pow", self, other)
    def __rpow__(self, other: Number) -> Value: return apply("pow", other, self)
    def __and__(self, other: Number) -> Value: return apply("bit_and", self, other)
    def __rand__(self, other: Number) -> Value: return apply("bit_and", other, self)
    def __or__(self, other: Number) -> Value: return apply("bit_or", self, other)
    def __ror__(self, other: Number) -> Value: return apply("bit_or", other, self)
    def __neg__(self) -> Value: return apply("neg", self)
    def __pos__(self) -> Value: return self
    def __invert__(self) -> Value: return apply("bit_not", self)
    def __abs__(self) -> Value: return apply("abs", self)
    def __round__(self, digits: object = None) -> Value:
        if digits is not None:
            raise error("unsupported_syntax", "round() takes a value alone", "Scale it: round(x * 100) / 100 keeps two digits.")
        return apply("round", self)
    def __floor__(self) -> Value: return apply("floor", self)
    def __ceil__(self) -> Value: return apply("ceil", self)
    def __lt__(self, other: Number) -> Value: return apply("lt", self, other)
    def __le__(self, other: Number) -> Value: return apply("le", self, other)
    def __gt__(self, other: Number) -> Value: return apply("gt", self, other)
    def __ge__(self, other: Number) -> Value: return apply("ge", self, other)
    def __eq__(self, other: object) -> Value: return apply("eq", self, other)  # type: ignore[override]
    def __ne__(self, other: object) -> Value: return apply("ne", self, other)  # type: ignore[override]
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise _branch()

    def __float__(self) -> NoReturn:
        raise error("type_mismatch", "a value of the epilogue has no number until the plan runs",
                    "Use post's functions on it (post.exp, post.sqrt, ...), not those of math.")

    __int__ = __index__ = __complex__ = __float__

    def __iter__(self) -> NoReturn:
        raise error("unsupported_syntax", "a value of the epilogue cannot be iterated over",
                    "An epilogue says what happens to every element; post.sum(x) adds them up, post.chunk(x, k) gives blocks of columns.")

    def __len__(self) -> NoReturn:
        raise error("unsupported_syntax", "a value of the epilogue has no length until the plan runs",
                    "M and N are known at the call; post.m_index() and post.n_index() number rows and columns.")

    def __getitem__(self, _: object) -> NoReturn:
        raise error("unsupported_syntax", "values are not indexed",
                    "post.chunk(x, k, group) gives blocks of columns; post.where with post.m_index() and post.n_index() selects elements.")

    def __setitem__(self, _: object, __: object) -> NoReturn:
        raise error("unsupported_syntax", "only names can be assigned to", "Values are never changed in place; give the new one a name.")

    def __divmod__(self, _: object) -> NoReturn:
        raise error("undefined_name", "there is no function 'divmod'", _core.synonym("divmod"))

    __rdivmod__ = __divmod__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # protocols, which ask often
            raise AttributeError(name)
        hint = f"Write post.{name}(x, ...)." if name in public else _core.synonym(name) or \
            "Operands are declared with their class: x: post.row; functions are called: post.sum(x, axis=1)."
        raise missing_attribute("unsupported_syntax", f"values have no attribute {_core.quoted(name)}", hint)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Value:
        made = _ufuncs.get(ufunc.__name__)
        if made is None or method != "__call__" or options:
            raise _not_numpys(ufunc.__name__)
        return made(*inputs)

    def __array_function__(self, function: Any, types: Any, items: Any, options: Any) -> Any:
        name = {"clip": "clamp", "where": "where"}.get(function.__name__)
        if name is None or options:
            raise _not_numpys(function.__name__)
        return public[name](*items)

    def __repr__(self) -> str:
        return f"<a value of an epilogue: {self._node!r}>"


def _refused(token: str) -> Callable[..., NoReturn]:
    def operator(*_: object) -> NoReturn:
        raise error("unsupported_syntax", *_core.refused_operator(token))
    return operator


for _name, _token in {"matmul": "@", "xor": "^", "lshift": "<<", "rshift": ">>"}.items():
    setattr(Value, f"__{_name}__", _refused(_token))
    setattr(Value, f"__r{_name}__", _refused(_token))


def _not_numpys(name: str) -> Exception:
    return error("unsupported_syntax", f"numpy's {name} does not take a value of the epilogue",
                 f"Write post.{name}." if name in public else _core.synonym(name) or "dir(post.ops) lists the functions that do.")


Number = Value | float | int | np.generic

# numpy's own functions on values, where they mean the same.
_ufuncs: dict[str, Callable[..., Value]] = {
    **{name: functools.partial(apply, op) for name, op in {
        "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "floor_divide": "floordiv",
        "negative": "neg", "absolute": "abs", "fabs": "abs", "minimum": "min", "maximum": "max", "exp": "exp", "exp2": "exp2",
        "expm1": "expm1", "log": "log", "log2": "log2", "log1p": "log1p", "tanh": "tanh", "sqrt": "sqrt",
        "reciprocal": "reciprocal", "power": "pow", "sin": "sin", "cos": "cos", "floor": "floor", "ceil": "ceil",
        "rint": "round", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
        "greater_equal": "ge", "bitwise_and": "bit_and", "bitwise_or": "bit_or", "invert": "bit_not",
        "logical_and": "bit_and", "logical_or": "bit_or", "logical_not": "bit_not"}.items()},
    **{name: functools.partial(call, function) for name, function in {
        "sign": "sign", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "logaddexp": "logaddexp",
        "remainder": "mod"}.items()},
    "positive": lambda x: x,
    "square": lambda x: x * x,
}


def _branch() -> Exception:
    """bool() of a value: what the user wrote decides what the message says to write instead."""
    frame = user_frame()
    expression: ast.AST | None = None
    if frame is not None:
        line, end_line, column, end_column = span_of(frame)
        place = place_of(frame)
        if end_line == line and column >= 0:
            with contextlib.suppress(SyntaxError, ValueError):
                expression = ast.parse(place.text.encode()[column:end_column].decode(), mode="eval").body
    what, hint = "a branch on a value that exists only at run time", "Write post.where(condition, a, b): both sides are computed and one is taken, for each element."
    if isinstance(expression, ast.Compare) and len(expression.ops) > 1:
        what, hint = "a chained comparison", "Write it in two: (low < x) & (x < high)."
    elif isinstance(expression, ast.BoolOp):
        word, sign = ("and", "&") if isinstance(expression.op, ast.And) else ("or", "|")
        what, hint = f"`{word}` of values", f"Write (a) {sign} (b), with parentheses."
    elif isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
        what, hint = "`not` of a value", "Write ~(a)."
    elif isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name) and expression.func.id in ("max", "min", "any", "all", "sum"):
        name = expression.func.id
        what, hint = f"Python's own {name}() on a value", f"Write post.{name}(...)."
    return error("branch_on_value", what, hint)


class Annotated:
    """What post.row[post.bf16] is: a class of operand with its dtype."""

    def __init__(self, kind: type[Value], dtype: _core.DType) -> None:
        self.kind, self.dtype = kind, dtype

    def __repr__(self) -> str:
        return f"{self.kind.__name__}[{self.dtype.name}]"


class _Class(Value):
    """The classes of operands. Written as annotations; no value is ever an instance."""

    axes = 0

    def __class_getitem__(cls, dtype: Any) -> Any:
        known = as_dtype(dtype)
        if known is None:
            raise error("unknown_dtype", f"{cls.__name__}[...] takes a dtype", "Write one of postlude's, such as post.bf16.")
        return Annotated(cls, known)


if TYPE_CHECKING:
    _D = TypeVar("_D", bound="AnyDType")

    class tile(Value, Generic[_D]): ...
    class row(Value, Generic[_D]): ...
    class col(Value, Generic[_D]): ...
    class scalar(Value, Generic[_D]): ...
else:
    class tile(_Class):
        """An operand of M x N."""
        axes = 6

    class row(_Class):
        """An operand of N values, the same for every row: a bias."""
        axes = 4

    class col(_Class):
        """An operand of M values, the same for every column: a label a row."""
        axes = 2

    class scalar(_Class):
        """An operand of one value: alpha."""
        axes = 0

classes: dict[str, Any] = {"tile": tile, "tensor": tile, "row": row, "col": col, "column": col, "scalar": scalar}


class NDArray:
    """The annotation of an epilogue visitor tree: NDArray['tensor', 'float32']."""

    def __class_getitem__(cls, item: Any) -> Any:
        named = item if isinstance(item, tuple) else (item,)
        if len(named) != 2 or named[0] not in classes:
            raise error("unknown_dtype", f"NDArray[{', '.join(map(repr, named))}] names no class and dtype",
                        "Write post.NDArray['tensor', 'float32'], or 'row', 'column' or 'scalar'.")
        return classes[named[0]][named[1]]
