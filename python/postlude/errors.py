"""Exceptions: one class a category of errors.def, every one with its code, its place and what to do."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from . import _core
from ._where import Place, user_place


class Error(Exception):
    """What Postlude refuses. str() shows the user's line with a caret, and what to do."""

    code: str          #: "PL0103"; stable, listed in docs/errors.md
    name: str          #: "undefined_name"
    message: str       #: one sentence
    hint: str          #: what to do; may be empty
    file: str          #: the user's file, or "" where no line is known
    line: int          #: 1-based; 0 where no line is known
    column: int        #: 1-based, in bytes

    def __init__(self, number: int, message: str, hint: str = "", place: Place | None = None) -> None:
        place = place or Place()
        self._arguments = (number, message, hint, place)
        super().__init__(_core.render_error(number, message, hint, *place))
        self.code = f"PL{number:04d}"
        self.name = _names.get(number, "")
        self.message, self.hint = message, hint
        self.file, self.line, self.column = place.file, place.line, place.column

    def __reduce__(self) -> tuple[type[Error], tuple[int, str, str, Place]]:
        return type(self), self._arguments


class TextError(Error):
    """PL01xx: the text, or the Python, of an epilogue."""


class MissingAttribute(TextError, AttributeError):  # type: ignore[misc]  # both have a name
    """PL01xx too, of a name behind a dot: hasattr() is False."""


class GraphError(Error):
    """PL02xx: an epilogue that means nothing."""


class OperandError(Error):
    """PL03xx: arrays that do not fit the epilogue or each other."""


class UnsupportedError(Error):
    """PL04xx: what a target cannot do."""


class MachineError(Error):
    """PL05xx: a device, a driver or memory that is missing."""


class FileError(Error):
    """PL06xx: a file that cannot be read or written."""


class UsageError(Error):
    """PL07xx: a function of this package called in a way that it does not take."""


class InternalError(Error):
    """PL09xx: a bug in Postlude."""


_categories: dict[int, type[Error]] = {
    1: TextError, 2: GraphError, 3: OperandError, 4: UnsupportedError, 5: MachineError, 6: FileError, 7: UsageError,
    9: InternalError,
}
_names = {number: name for number, name, _ in _core.error_table()}
_numbers = {name: number for number, name in _names.items()}


def error(name: str, message: str, hint: str = "", place: Place | None = None) -> Error:
    """An exception by its name in errors.def, at the user's line unless another place is given."""
    number = _numbers[name]
    return _categories[number // 100](number, message, hint, place or user_place())


def refusing(function: Callable[..., Any], signature: inspect.Signature, called: str, hint: str) -> Callable[..., Any]:
    """The function, which refuses in our words arguments that its signature does not take."""
    def call(*items: Any, **keywords: Any) -> Any:
        try:
            return function(*items, **keywords)
        except TypeError:
            try:
                signature.bind(*items, **keywords)
            except TypeError as problem:
                raise error("bad_call", f"{called}: {problem}", hint) from None
            raise
    return call


def utf8(text: str) -> str:
    """The text; half of a surrogate pair, which UTF-8 lacks, as Python escapes it."""
    return text.encode("utf-8", "backslashreplace").decode()


def missing_attribute(name: str, message: str, hint: str) -> MissingAttribute:
    return MissingAttribute(_numbers[name], message, hint, user_place())


def _from_core(number: int, message: str, hint: str, file: str, line: int, column: int, length: int, text: str) -> Error:
    place = Place(file, line, column, length, text) if line else user_place()
    return _categories[number // 100](number, message, hint, place)


_core.set_error_factory(_from_core)
