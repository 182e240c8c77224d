"""@post.function: an operation of one's own, in one decorator."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from . import _core, numeric
from .epilogue import forget_graphs
from .errors import error
from .values import Value, call


class Function:
    """What @post.function makes: works on values in an epilogue, on arrays and on numbers."""

    def __init__(self, function: Callable[..., Any], native: bool, arguments: int, derivatives: tuple[str, ...] = ()) -> None:
        self.function, self.native, self.arguments, self.derivatives = function, native, arguments, derivatives
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self.signature = inspect.signature(function)
        self.numpy = self.__call__  # as an epilogue visitor tree writes: swish.numpy(x)

    def __call__(self, *items: Any, **keywords: Any) -> Any:
        if not self.native:
            return self.function(*items, **keywords)
        try:
            bound = self.signature.bind(*items, **keywords)
        except TypeError as problem:
            raise error("bad_call", f"{self.__name__}: {problem}", f"Write {self.__name__}{self.signature}.") from None
        bound.apply_defaults()
        values = list(bound.arguments.values())
        if any(isinstance(value, Value) for value in values):
            return call(self.__name__, *values)
        return self.function(*[numeric.copied(numeric.widen(value)) for value in values[:self.arguments]], *values[self.arguments:])

    def __repr__(self) -> str:
        return f"<postlude function {self.__name__}{self.signature}{' (native)' if self.native else ''}>"


@overload
def function(f: Callable[..., Any], /) -> Function: ...
@overload
def function(*, cuda: str = ..., derivative: str | Sequence[str] = ..., strip: int = ..., ulps: float = ...,
             absolute_error: float = ..., guard: str = ...) -> Callable[[Callable[..., Any]], Function]: ...


def function(f: Callable[..., Any] | None = None, /, *, cuda: str = "", derivative: str | Sequence[str] = (), strip: int = 0,
             ulps: float = 4, absolute_error: float = 0, guard: str = "") -> Any:
    """An operation of one's own.

    Bare, over post's operations: the function is traced into the epilogues that use it.

    With arguments it is native: one node, whose Python function is the numpy reference. Parameters that have a default
    (or are keyword-only) are run-time parameters, numbers; the others are arguments, arrays.

    cuda: an expression in x0, x1, ... (arguments) and p0, p1, ... (parameters), for CUDA targets.
    strip: the address of a compiled `void f(const float* const* x, const float* p, float* out, int64_t n)` for the CPU;
        without it the numpy reference runs on each strip of elements.
    derivative: the derivative by the argument (by each, in a list), in the language: "1 - tanh(x) ** 2". The argument is
        called x, several x0, x1, ...; it is kept with the function, for gradients to come.
    ulps, absolute_error: how far those codes may be from the reference.
    guard: an expression in the parameters; where it holds the result is 0 and the arguments are not read.

    A native function that is defined again, as an edited cell of a notebook does, takes the place of the last of its name:
    epilogues are traced anew, plans that were made keep what they have. What it raises reaches the caller.
    """
    native = bool(cuda or derivative or strip or guard)

    def make(f: Callable[..., Any]) -> Function:
        if not native:
            return Function(f, False, 0)
        arguments, parameters = [], []
        for parameter in inspect.signature(f).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise error("bad_function", f"{f.__name__!r} takes *{parameter.name}", "Name every argument.")
            if parameter.default is not parameter.empty or parameter.kind is parameter.KEYWORD_ONLY:
                parameters.append((parameter.name, None if parameter.default is parameter.empty else float(parameter.default)))
            elif parameters:
                raise error("bad_function", f"{f.__name__!r} has an argument after its parameters", "Arguments come first.")
            else:
                arguments.append(parameter.name)

        def reference(*items: Any) -> Any:
            made = f(*items[:len(arguments)], **{name: value for (name, _), value in zip(parameters, items[len(arguments):])})
            if arguments and np.shape(made) not in ((), (1,), np.shape(items[0])):
                raise error("bad_function", f"{f.__name__!r} makes an array of {np.shape(made)} of one of {np.shape(items[0])}",
                            "A native function is elementwise: it gives one element for each.")
            return made

        derivatives = (derivative,) if isinstance(derivative, str) and derivative else tuple(derivative)
        _core.define_native(f.__name__, reference, len(arguments), parameters, ulps, absolute_error, cuda, list(derivatives),
                            guard, strip)
        forget_graphs()
        return Function(f, True, len(arguments), derivatives)

    return make(f) if f is not None else make
