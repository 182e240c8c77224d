"""EpilogueVisitTree: an epilogue as a class with `__call__`, as CUTLASS's Python package had it."""
from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, ClassVar

from . import numeric
from .epilogue import Epilogue
from .errors import error
from .values import Value


class EpilogueVisitTree(Epilogue):
    """A base class whose instances are epilogues: `__call__(self, accum, ...)` says what @post.epilogue's function would.

    Arguments of the constructor (there: an epilogue functor, tiles, element types) mean nothing unless a class has an
    `__init__` for them. What `__call__` reads from `self` is a constant of the graph, read when that is made.
    """

    _body: ClassVar[Callable[..., Any] | None] = None
    _given: functools.partial[Any]  # makes it again

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        body = cls.__dict__.get("__call__")
        if body is None:
            return

        @functools.wraps(body)
        def call(self: EpilogueVisitTree, *arguments: Any, **keywords: Any) -> Any:
            # On values it is the function as written, so that super().__call__(...) is a part of another epilogue.
            if numeric.running() or any(isinstance(value, Value) for value in (*arguments, *keywords.values())):
                return body(self, *arguments, **keywords)
            return Epilogue.__call__(self, *arguments, **keywords)

        cls._body = body
        setattr(cls, "__call__", call)

    # All that an epilogue needs is made here, so that a class's own __init__ need not call this one's.
    def __new__(cls, *given: Any, **named: Any) -> EpilogueVisitTree:
        if cls._body is None:
            raise error("usage", f"the class {cls.__name__!r} has no __call__",
                        "Say what happens to the accumulator: def __call__(self, accum, c: 'tensor'): ...")
        self = super().__new__(cls)
        Epilogue.__init__(self, types.MethodType(cls._body, self), cls.__name__)
        self._given = functools.partial(cls, *given, **named)
        return self

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def initialize(self) -> None:
        """Nothing: the graph is made at the first use."""

    def __reduce__(self) -> Any:
        return self._given, ()
