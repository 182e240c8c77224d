"""Compiles, and tells the log how long that took."""
from __future__ import annotations

import logging
import time
from typing import Any

from . import _core
from .dtypes import DType

log = logging.getLogger("postlude")
log.addHandler(logging.NullHandler())


def compile_logged(problem: _core.Problem, graph: _core.Graph, target: _core.Target,
                   dtypes: list[tuple[str, DType]], record: Any, defaults: dict[str, Any]) -> _core.Plan:
    start = time.perf_counter()
    plan = _core.compile(problem, graph, target, dtypes, record, defaults)
    log.debug("compiled %r in %.2f ms", plan, 1e3 * (time.perf_counter() - start))
    return plan
