"""The functions of the language by name, as ops.py offers them.

_operations.py fills the table. Values and numbers, which those functions work on, look others up here, so that neither
imports what is made of it.
"""
from collections.abc import Callable
from typing import Any

public: dict[str, Callable[..., Any]] = {}
