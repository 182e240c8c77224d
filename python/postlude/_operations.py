"""What makes the functions of ops.py: one for each row of the op table, the reductions and the language's own functions.

On symbolic values a function makes a node; on numbers and arrays it computes (numeric.py). The table is C++'s, so a new
operation appears, with its documentation, by itself; ops.pyi is generated from it when the package is built.
"""
from __future__ import annotations

import contextlib
import inspect
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from . import _core, numeric
from ._public import public
from .dtypes import Round, as_dtype, as_round, stochastic
from .errors import error, refusing
from .values import Value, apply, call, current_trace, node_of, trace_of

_N, _M, _B = 4, 2, 1


def _symbolic(*items: Any) -> bool:
    if any(isinstance(item, (_core.LoopExpr, _core.LoopAxis, _core.LoopTensor)) for item in items):
        raise error("bad_call", "a function of epilogues does not take what loops compute", "Write te.relu, te.exp and so on, of elements.")
    return any(isinstance(item, Value) for item in items)


def _is_integer(item: Any) -> bool:
    """Whether it is one now: a value of the epilogue has no number until the plan runs, and a bool counts nothing."""
    return hasattr(item, "__index__") and not isinstance(item, (Value, bool))


def _axis_bits(axis: Any) -> int:
    axes = (0, 1) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    bits = 0
    for each in axes:
        if not _is_integer(each) or each not in (0, 1, -1, -2):
            raise error("bad_attribute", f"there is no axis {each!r}", "axis=0 goes over the rows M, axis=1 over the columns N.")
        bits |= _N if each in (1, -1) else _M
    if not bits:
        raise error("bad_attribute", "a reduction over no axis", "axis=0 goes over the rows M, axis=1 over the columns N.")
    return bits


def _group(group: int | None) -> int:
    if group is not None and (not _is_integer(group) or group < 1):
        raise error("bad_attribute", f"a group of {group!r}", "A group is a number of columns, at least one; leave it out for the whole axis.")
    return operator.index(group or 0)


def _reduction(op: str, x: Any, axis: Any, group: int | None, batch: bool) -> Any:
    bits, columns = _axis_bits(axis), _group(group)
    if not _symbolic(x):
        return numeric.reduction(op, x, axis, group, batch)
    trace = trace_of(x)
    return Value(_core.reduction(op, node_of(x), bits, columns, batch), trace)


def _leaf(name: str, arguments: tuple[int, ...] = ()) -> Any:
    trace = current_trace()
    if trace is None:
        return getattr(numeric, name)(*arguments)
    trace.locate()
    return Value(getattr(trace.builder, name)(*arguments), trace)


def m_index() -> Any:
    return _leaf("m_index")


def n_index() -> Any:
    return _leaf("n_index")


def batch_index() -> Any:
    return _leaf("batch_index")


def z_index() -> Any:
    return _leaf("z_index")


def p_index() -> Any:
    return _leaf("p_index")


def q_index() -> Any:
    return _leaf("q_index")


def _seed(seed: int, stream: int = 0) -> int:
    if not (_is_integer(seed) and _is_integer(stream)):
        raise error("bad_attribute", f"a seed of {seed!r} and a stream of {stream!r}", "Both are integers, fixed when the epilogue is compiled.")
    if not 0 <= seed < 2**64 or not 0 <= stream < 2**32:
        raise error("bad_attribute", "a seed or stream out of range", "A seed has 64 bits, a stream 32.")
    return seed


def random(seed: int, stream: int = 0) -> Any:
    return _leaf("random", (_seed(seed, stream), stream))


def cast(x: Any, dtype: Any, round: Any = Round.nearest_even, seed: int = 0) -> Any:
    known = as_dtype(dtype)
    if known is None:
        raise error("unknown_dtype", f"{dtype!r:.60} is not a dtype of Postlude", "Write one of its own, as post.cast(x, post.bf16); f32 is the widest float.")
    how = as_round(round)
    if how is None:
        raise error("bad_attribute", "an unknown way to round", "There are nearest_even, toward_zero, up, down and stochastic(seed).")
    if isinstance(round, stochastic):
        seed = _seed(round.seed)
    if not _symbolic(x):
        return numeric.cast(x, known, how, seed)
    trace = trace_of(x)
    return Value(_core.cast(node_of(x), known, how, seed), trace)


def chunk(x: Any, k: int, group: int | None = None) -> tuple[Any, ...]:
    if not _symbolic(x):
        return numeric.chunk(x, k, group)
    if not _is_integer(k):
        raise error("bad_attribute", f"chunk into {k!r} pieces", "How many pieces there are is an integer.")
    trace = trace_of(x)
    return tuple(Value(piece, trace) for piece in _core.chunk(node_of(x), k, _group(group)))


def concat(parts: Sequence[Any], group: int | None = None) -> Any:
    if not isinstance(parts, (tuple, list)):
        raise error("bad_call", f"concat of a {type(parts).__name__}", "Give a tuple of the values to join: concat((a, b)).")
    if not parts:
        raise error("bad_call", "concat of nothing", "Give the values to join: concat((a, b)).")
    if not _symbolic(*parts):
        return numeric.concat(parts, group)
    trace = trace_of(*parts)
    return Value(_core.concat([node_of(part) for part in parts], _group(group)), trace)


def repeat(x: Any, group: int, axis: int = 1) -> Any:
    bits, columns = _axis_bits(axis), _group(group)
    if not _symbolic(x):
        return numeric.repeat(x, group, axis)
    trace = trace_of(x)
    return Value(_core.repeat(node_of(x), columns, bits), trace)


def reduce(values: Any, combine: Callable[..., Any], identity: Any, axis: Any = None, group: int | None = None,
           batch: bool = False) -> Any:
    single = not isinstance(values, (tuple, list))
    items = [values] if single else list(values)
    identities = list(identity) if isinstance(identity, (tuple, list)) else [identity]
    if not items:
        raise error("bad_call", "a reduction of no values", "Give a value, or a tuple of some.")
    if len(identities) != len(items):
        raise error("bad_combiner", f"{len(items)} values and {len(identities)} identities", "Give one identity a value.")
    bits, columns = _axis_bits(axis), _group(group)
    if not _symbolic(*items):
        results: Any = numeric.general_reduce(items, combine, identities, axis, group, batch)
        return results[0] if single else results
    trace = trace_of(*items)
    if combine in (max, min):
        raise error("bad_combiner", f"the combiner is Python's own {combine.__name__}()", f"Write combine=post.{combine.__name__}.")
    try:
        with contextlib.suppress(ValueError):  # numpy's ufuncs have no signature
            inspect.signature(combine).bind(*items, *items)
    except TypeError:
        raise error("bad_combiner", f"a combiner of {len(items)} value{'s' * (len(items) > 1)} has {2 * len(items)} parameters",
                    "They are the left values, then the right ones: lambda a1, a2, b1, b2: (...).") from None

    def combined(left: list[_core.Node], right: list[_core.Node]) -> list[Any]:
        trace.combining += 1
        try:
            result = combine(*[Value(node, trace) for node in left + right])
        finally:
            trace.combining -= 1
        return [node_of(item) for item in (result if isinstance(result, (tuple, list)) else (result,))]

    nodes = _core.reduce([node_of(item) for item in items], combined, [float(i) for i in identities], bits, columns, batch)
    values_out = tuple(Value(node, trace) for node in nodes)
    return values_out[0] if single else values_out


def reduction_op(x: Any, kind: str, op: str, length: int) -> Any:
    """The partial reductions of an epilogue visitor tree: kind "row" reduces each row every `length` columns, "column" each
    column every `length` rows. op: "Add", "Max", "Min" or "Mul"."""
    axis = {"row": 1, "column": 0}.get(kind)
    name = {"Add": "sum", "Max": "max", "Min": "min", "Mul": "prod"}.get(op)
    if axis is None or name is None:
        raise error("bad_call", f"reduction_op knows no {kind!r} with {op!r}", 'Write reduction_op(x, "row", "Add", length), or "column", and "Max", "Min" or "Mul".')
    return _reduction(name, x, axis, length, False)


# The generated rest -------------------------------------------------------------------------------------------------

_ARGUMENTS = {1: "x", 2: "a, b", 3: "a, b, c"}
_SPECIAL = {"where": "condition, a, b", "scaled": "s, x"}

#: name -> (parameters, documentation), for the stubs.
table: dict[str, tuple[str, str]] = {}


def _elementwise(op: str, name: str, arity: int) -> Callable[..., Any]:
    def operation(*items: Any, **keywords: Any) -> Any:
        if keywords or len(items) != arity:
            items = inspect.signature(public[name]).bind(*items, **keywords).args
        return apply(op, *items) if _symbolic(*items) else numeric.elementwise(op, *items)
    return operation


def _reducer(name: str) -> Callable[..., Any]:
    def operation(x: Any, axis: Any = None, group: int | None = None, batch: bool = False) -> Any:
        return _reduction(name, x, axis, group, batch)
    return operation


def _extreme(name: str) -> Callable[..., Any]:
    """min and max: of two values elementwise, of one a reduction."""
    def operation(x: Any, other: Any = None, *, axis: Any = None, group: int | None = None, batch: bool = False) -> Any:
        if other is None:
            return _reduction(name, x, axis, group, batch)
        return apply(name, x, other) if _symbolic(x, other) else numeric.elementwise(name, x, other)
    return operation


def _prelude(name: str, signature: inspect.Signature) -> Callable[..., Any]:
    def operation(*items: Any, **keywords: Any) -> Any:
        bound = signature.bind(*items, **keywords)
        bound.apply_defaults()
        arguments = list(bound.arguments.values())
        if not _symbolic(*arguments):
            return numeric.prelude()[name](*arguments)
        return call(name, *arguments)
    return operation


def signature_of(text: str) -> inspect.Signature:
    """Of "leaky_relu(x, slope=0.01)"."""
    parameters = []
    for part in re.sub(r"^[^(]*\(|\)$", "", text).split(","):
        name, _, default = (piece.strip() for piece in part.partition("="))
        if name:
            parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                                default=float(default) if default else inspect.Parameter.empty))
    return inspect.Signature(parameters)


def publish(name: str, operation: Callable[..., Any], parameters: str, doc: str) -> None:
    signature = inspect.signature(operation)
    if "items" in signature.parameters:
        signature = signature_of(parameters)

    function = refusing(operation, signature, f"post.{name}", f"Write post.{name}({parameters}).")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__module__ = "postlude"
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.numpy = function  # type: ignore[attr-defined]  # as an epilogue visitor tree writes: tanh.numpy(x)
    table[name] = (parameters, doc)
    public[name] = function


def _shown(parameter: inspect.Parameter) -> str:
    """As a user writes it: without its annotation, and a way to round by its name."""
    default = f"post.Round.{parameter.default.name}" if isinstance(parameter.default, _core.Round) else None
    plain = parameter.replace(annotation=parameter.empty)
    return f"{parameter.name}={default}" if default else str(plain)


def _fill() -> None:
    written = {"cast": cast, "chunk": chunk, "concat": concat, "repeat": repeat, "m_index": m_index, "n_index": n_index,
               "batch_index": batch_index, "z_index": z_index, "p_index": p_index, "q_index": q_index, "random": random}
    elementwise_docs = {}
    for op, spelling, arity, elementwise, doc in _core.op_table():
        if spelling in written:
            parameters = inspect.signature(written[spelling]).parameters.values()
            publish(spelling, written[spelling], ", ".join(_shown(p) for p in parameters), doc)
        elif elementwise and spelling.isidentifier() and op not in ("min", "max"):
            publish(spelling, _elementwise(op, spelling, arity), _SPECIAL.get(op, _ARGUMENTS[arity]), doc)
        elementwise_docs[op] = doc
    publish("floordiv", _elementwise("floordiv", "floordiv", 2), "a, b", elementwise_docs["floordiv"])
    for name, doc in _core.reduction_table():
        if name == "reduce":
            publish("reduce", reduce, "values, combine, identity, axis=None, group=None, batch=False", doc)
        elif name in ("min", "max"):
            publish(name, _extreme(name), "x, other=None, *, axis=None, group=None, batch=False",
                    f"Of two values: {elementwise_docs[name]} Of one, a reduction: {doc}")
        else:
            publish(name, _reducer(name), "x, axis=None, group=None, batch=False", doc)
    publish("reduction_op", reduction_op, "x, kind, op, length", reduction_op.__doc__ or "")
    for name, text, doc, *_ in _core.functions():
        if name not in table:
            signature = signature_of(text)
            publish(name, _prelude(name, signature), ", ".join(map(str, signature.parameters.values())), doc)


_fill()
