"""post.doctor(): what this machine can run, and what is missing."""
from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys

from . import _core
from .run import plain


class Report(dict[str, str]):
    """What the doctor found, by subject; prints as a table."""

    def __repr__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{subject:<{width}}  {finding}" for subject, finding in self.items())


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # cupy is distributed as cupy-cuda13x and so on
        return "installed" if importlib.util.find_spec(package) else "not installed"


def doctor() -> Report:
    """Versions, the CPU's and the GPU's readiness, and why a backend cannot be used. Prints nothing."""
    report = Report()
    report["postlude"] = _core.version
    report["python"] = f"{platform.python_version()} on {platform.machine()}"
    plan = _core.compile(_core.gemm, plain.graph, _core.Target.cpu(), [], None, {})
    report["cpu"] = plan.explain("schedule").strip().partition("\n")[0]
    ok, reasons = _core.supports(_core.gemm, plain.graph, _core.Target.cuda(), [])
    report["cuda"] = "ready" if ok else "; ".join(dict.fromkeys(reasons))
    for package, use in (("numpy", ""), ("ml_dtypes", "bf16 and fp8 arrays in numpy"), ("torch", ""), ("jax", ""), ("cupy", "")):
        version = _version(package)
        report[package] = version + (f" ({use})" if use and version == "not installed" else "")
    report["loaded"] = ", ".join(name for name in ("torch", "jax", "cupy") if name in sys.modules) or "no framework but numpy"
    return report
