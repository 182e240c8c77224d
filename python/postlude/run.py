"""post.matmul, post.stream and the prepared path: post.plan(...).bind(...)()."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Never

from . import _core
from .dtypes import DType, as_dtype
from .epilogue import Epilogue, epilogue as make_epilogue
from .errors import Error, error, utf8


@make_epilogue
def plain(acc):  # type: ignore[no-untyped-def]
    D = acc
    return D


def _epilogue(given: Any) -> Epilogue:
    if given is None:
        return plain
    if isinstance(given, Epilogue):
        return given
    if isinstance(given, type):
        raise error("usage", f"epilogue= is the class {given.__name__!r} itself",
                    "Pass an instance of it, which derives from post.EpilogueVisitTree, or a function decorated with @post.epilogue.")
    if callable(given):
        raise error("usage", f"epilogue= is the function {getattr(given, '__name__', '')!r} itself", "Decorate it with @post.epilogue.")
    raise error("usage", f"epilogue= is a {type(given).__name__}", "Pass a function decorated with @post.epilogue, or what post.load read.")


def _target(given: Any) -> _core.Target | None:
    if given is None or isinstance(given, _core.Target):
        return given
    if isinstance(given, str) and given.isascii():
        return _core.Target.parse(given)
    raise error("usage", f"target={given!r} is no target", "Pass a name, as 'cpu', 'cuda:1' or 'sm_90a', or what post.Target makes.")


def by_name(others: tuple[Any, ...], function: str, *arrays: str) -> Never:
    """Refuses what stands behind the arrays of a main loop: an epilogue and its operands have names."""
    raise error("usage", f"post.{function} takes {' and '.join(arrays)} by position, not {len(arrays) + len(others)} arguments",
                f"Name the others: post.{function}({', '.join(arrays)}, epilogue=f, bias=bias).")


def matmul(a: Any, b: Any, /, *others: Never, epilogue: Epilogue | None = None, out: Any = None, target: Any = None, **operands: Any) -> Any:
    """epilogue(a @ b, **operands), computed in one pass.

    a is (M, K), b is (K, N); either may have a batch axis in front. Any strides: pass w.T for a weight of (N, K). Returns
    the output, or a named tuple of outputs, as arrays of a's framework on a's device and current stream.
    out: arrays to write instead: one, a tuple in the outputs' order, or a dict by name. It may be an operand.
    """
    if others:
        by_name(others, "matmul", "a", "b")
    if target is None and type(epilogue) is Epilogue:
        launcher = epilogue._launchers.get(_GEMM)
        if launcher is not None:
            return launcher((a, b), operands, out)
    return _epilogue(epilogue)._launcher(_core.gemm, _target(target))((a, b), operands, out)


_GEMM = (_core.gemm._key, None)


def stream(x: Any, /, *others: Never, epilogue: Epilogue, out: Any = None, target: Any = None, **operands: Any) -> Any:
    """epilogue(x, **operands): an epilogue over a tensor that is in memory already, with no product before it."""
    if others:
        by_name(others, "stream", "x")
    return _epilogue(epilogue)._launcher(_core.stream, _target(target))((x,), operands, out)


def _typed(item: Any, what: str) -> tuple[DType, int | None]:
    """(dtype, rank) of an array, or of a dtype."""
    known = as_dtype(item)
    if known is not None:
        return known, None
    if isinstance(item, (str, type)):
        raise error("unknown_dtype", f"{what}: {item!r} is not a dtype", "Write one of postlude's, such as post.bf16.")
    dtype, rank, number = _core.array_type(item, what)
    return dtype, None if number else rank


def _where_is(item: Any) -> _core.Target:
    """The GPU that an array is on, else the CPU."""
    index = _core.device_of(item) if as_dtype(item) is None else -1
    return _core.Target.cuda(index) if index >= 0 else _core.Target.cpu()


def _problem(loop: _core.Problem, inputs: Sequence[Any], epilogue: Epilogue | None, batched: bool | None, target: Any,
             dtypes: Mapping[str, Any] | None, operands: Mapping[str, Any], class_rank: Callable[[int], int] = int) -> tuple[Any, ...]:
    """`loop` over inputs of these arrays' dtypes, and what else a plan is compiled from. class_rank: of an operand's axes, as
    many as a product's of the same class has."""
    chosen = _epilogue(epilogue)
    typed = [_typed(given, name) for given, (name, _) in zip(inputs, loop.inputs)]
    if batched is None:
        batched = any(rank == axes + 1 for (_, rank), (_, axes) in zip(typed, loop.inputs))
    problem = loop.over([dtype for dtype, _ in typed], batched)
    ranks: list[int | None] = []
    types: list[DType | None] = []
    _core.refuse_unknown([operand.name for operand in chosen.operands], dict(operands))
    for operand in chosen.operands:
        given = operands.get(operand.name, operand.default)
        if given is None:
            if operand.axes is None:
                raise error("missing_operand", f"the class of the operand {operand.name!r} is not known",
                            f"Annotate it, or pass {operand.name}= an array like the one that will be bound.")
            ranks.append(None)
            types.append(None)
            continue
        if isinstance(given, type) and hasattr(given, "axes"):
            rank = {0: 0, 4: 1, 6: 2}.get(given.axes)
            if rank is None:
                raise error("bad_call", f"the operand {operand.name!r} is not annotated, and a rank does not make a col",
                            f"Annotate it: {operand.name}: post.col.")
            ranks.append(rank + bool(rank and batched))
            types.append(None)
        else:
            dtype, rank = _typed(given, operand.name)
            ranks.append(None if rank is None else class_rank(rank))
            types.append(dtype)
    more = {utf8(name): _typed(dtype, name)[0] for name, dtype in (dtypes or {}).items()}
    return chosen, problem, ranks, types, _target(target) or _where_is(inputs[0]), more


def _loop_of(a: Any, b: Any) -> tuple[_core.Problem, tuple[Any, ...]]:
    return (_core.stream, (a,)) if b is None else (_core.gemm, (a, b))


def plan(a: Any, b: Any = None, /, *others: Never, epilogue: Epilogue | None = None, batched: bool | None = None, target: Any = None,
         dtypes: Mapping[str, Any] | None = None, **operands: Any) -> _core.Plan:
    """A plan, for any M, N and K: plan(a, b, epilogue=f).bind(a, b, ...) gives a call that runs again and again.

    a, b and operands are arrays like those that will be bound, or dtypes; without b it is a plan for post.stream.
    Unannotated operands need an array or a class (bias=post.row). dtypes: of outputs and operands left open, by name.
    """
    if others:
        by_name(others, "plan", "a", "b")
    chosen, problem, ranks, types, where, more = _problem(*_loop_of(a, b), epilogue, batched, target, dtypes, operands)
    made: _core.Plan = chosen._compile(problem, ranks, types, [], where, more)
    return made


class Support:
    """The answer of post.supports: true or false, and if false why, with what to change."""

    def __init__(self, ok: bool, reasons: list[str]) -> None:
        self.ok, self.reasons = ok, reasons

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return "<supported>" if self.ok else "<not supported: " + "; ".join(self.reasons) + ">"


def supports(a: Any, b: Any = None, /, *, epilogue: Epilogue | None = None, batched: bool | None = None, target: Any = None,
             dtypes: Mapping[str, Any] | None = None, **operands: Any) -> Support:
    """Whether plan() with the same arguments would succeed. Raises where they are no question, such as an epilogue in error."""
    _epilogue(epilogue)
    return _supported(lambda: _problem(*_loop_of(a, b), epilogue, batched, target, dtypes, operands))


def _supported(asked: Callable[[], tuple[Any, ...]]) -> Support:
    """Whether the plan of what _problem returns can be made."""
    try:
        chosen, problem, ranks, types, where, more = asked()
        axes = chosen.axes_at(ranks, problem.batched)
    except Error as refusal:
        return Support(False, [f"{refusal.message}. {refusal.hint}".strip()])
    graph = chosen.graph_of(axes)
    options = [(o.name, t) for o, r, t in zip(chosen.operands, ranks, types) if o.dtype is None and t is not None and r is not None]
    return Support(*_core.supports(problem, graph, where, [*options, *more.items()]))
