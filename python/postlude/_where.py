"""Where in the user's code something happens: the innermost frame outside this package."""
from __future__ import annotations

import functools
import linecache
import os
import sys
from types import CodeType, FrameType
from typing import NamedTuple

_package = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Place(NamedTuple):
    """A span of a line; columns are 1-based and count bytes, as in every front end. line 0: unknown."""

    file: str = ""
    line: int = 0
    column: int = 0
    length: int = 0
    text: str = ""


def user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_package):
        frame = frame.f_back
    return frame


@functools.lru_cache(maxsize=256)
def _positions(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


def span_of(frame: FrameType) -> tuple[int, int, int, int]:
    """(line, end line, column, end column) of the expression that a frame is at; columns 0-based, -1 where unknown."""
    if frame.f_lasti >= 0:
        line, end_line, column, end_column = _positions(frame.f_code)[frame.f_lasti // 2]
        if line is not None:
            return (line, line if end_line is None else end_line, -1 if column is None else column,
                    -1 if end_column is None else end_column)
    return frame.f_lineno or frame.f_code.co_firstlineno, 0, -1, -1


def shown(file: str) -> str:
    """A file as a message names it: relative where it lies below the current folder."""
    try:
        return _below(file, os.getcwd())
    except (OSError, ValueError):
        return file


@functools.lru_cache(maxsize=256)
def _below(file: str, folder: str) -> str:
    relative = os.path.relpath(file, folder)
    return file if relative.startswith("..") else relative


def place_of(frame: FrameType) -> Place:
    file = frame.f_code.co_filename
    line, end_line, column, end_column = span_of(frame)
    text = linecache.getline(file, line, frame.f_globals).rstrip("\n")
    if column < 0:
        column = len(text) - len(text.lstrip())
        end_column = len(text.encode())
    elif end_line != line:
        end_column = len(text.encode())
    return Place(shown(file), line, column + 1, max(end_column - column, 1), text)


def user_place() -> Place:
    frame = user_frame()
    return Place() if frame is None else place_of(frame)
