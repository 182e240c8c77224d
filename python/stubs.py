"""Writes ops.pyi, the type stub of the generated operations, beside a built extension module: stubs.py FOLDER."""
import importlib
import importlib.util
import pathlib
import sys

folder = pathlib.Path(sys.argv[1]).resolve()
# While a wheel is put together FOLDER has the extension module only: the Python files are these, beside this script.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
spec = importlib.util.spec_from_file_location("postlude._core", next(folder.glob("_core.*.so")))
assert spec and spec.loader
sys.modules["postlude._core"] = core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
sys.dont_write_bytecode = True
table = importlib.import_module("postlude._operations").table

HEADER = '''"""The operations of the epilogue language. Generated from its table by python/stubs.py."""
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from .dtypes import Round, stochastic
from .values import Value

_Axis = int | tuple[int, int] | None
_Array = TypeVar("_Array")  # an array of numpy, torch, cupy or jax; or a number

inf: float
nan: float

'''
REDUCTION = "axis: _Axis = ..., group: int | None = ..., batch: bool = ..."
WRITTEN = {
    "cast": ["x: {x}, dtype: Any, round: Round | stochastic | str = ..., seed: int = ..."],
    "chunk": ["x: {x}, k: int, group: int | None = ..."],
    "concat": ["parts: Sequence[{x}], group: int | None = ..."],
    "repeat": ["x: {x}, group: int, axis: int = ..."],
    "reduction_op": ["x: {x}, kind: str, op: str, length: int"],
    "min": ["x: {x}, *, " + REDUCTION], "max": ["x: {x}, *, " + REDUCTION],
}
LEAVES = {"m_index": "", "n_index": "", "batch_index": "", "z_index": "", "p_index": "", "q_index": "", "random": "seed: int, stream: int = ..."}


def names(parameters: str) -> list[str]:
    return [part.strip() for part in parameters.split(",")]


def lines(name: str, parameters: str, doc: str) -> list[str]:
    quoted = doc.replace("\\", "\\\\").replace('"""', "'''")
    body = f'    """{quoted}"""'
    result = {"chunk": "tuple[{x}, ...]"}.get(name, "{x}")
    if name in LEAVES:
        return [f"def {name}({LEAVES[name]}) -> Value:", body]
    if name == "reduce":
        tail = f"combine: Callable[..., Any], identity: float | Sequence[float], {REDUCTION}"
        return [f"@overload\ndef reduce(values: Sequence[Value], {tail}) -> tuple[Value, ...]:", body,
                f"@overload\ndef reduce(values: Value, {tail}) -> Value: ..."]
    if name in WRITTEN:
        symbolic = WRITTEN[name][0]
    elif "axis=None" in parameters:
        symbolic = "x: {x}, " + REDUCTION
    else:
        # One argument at least is a value; the others may be numbers. (numpy's ufuncs are as loose.)
        arguments = names(parameters)
        kinds = [part.partition("=")[0] + ": Value | float" + (" = ..." if "=" in part else "") for part in arguments]
        if len(arguments) == 1 or "=" in arguments[1]:
            kinds[0] = arguments[0] + ": Value"
        loose = ", ".join(part.partition("=")[0] + ": Any" + (" = ..." if "=" in part else "") for part in arguments[1:])
        out = [f"@overload\ndef {name}({', '.join(kinds)}) -> Value:", body]
        return out + [f"@overload\ndef {name}({arguments[0]}: _Array{', ' if loose else ''}{loose}) -> _Array: ..."]
    out = [f"@overload\ndef {name}({symbolic.format(x='Value')}) -> {result.format(x='Value')}:", body,
           f"@overload\ndef {name}({symbolic.format(x='_Array')}) -> {result.format(x='_Array')}: ..."]
    if name in ("min", "max"):
        out[0:0] = [f"@overload\ndef {name}(x: Value | float, other: Value | float) -> Value:", body,
                    f"@overload\ndef {name}(x: _Array, other: Any) -> _Array: ..."]
    return out


text = HEADER + "\n".join("\n".join(lines(name, *table[name])) for name in sorted(table)) + "\n"
(folder / "ops.pyi").write_text(text, encoding="utf-8")
