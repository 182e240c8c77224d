"""Element types: post.bf16 and its siblings, which are also what a class of operand is indexed with: post.row[post.bf16]."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._core import DType, Round, parse_dtype

if TYPE_CHECKING:
    # For type checkers the dtypes are classes, so that they may stand between the brackets of an annotation.
    class f32(DType): ...
    class f16(DType): ...
    class bf16(DType): ...
    class e4m3(DType): ...
    class e5m2(DType): ...
    class s8(DType): ...
    class u8(DType): ...
    class i32(DType): ...
    class i64(DType): ...
    class bool(DType): ...

    AnyDType = DType | type[DType]
else:
    f32, f16, bf16, e4m3, e5m2 = DType.f32, DType.f16, DType.bf16, DType.e4m3, DType.e5m2
    s8, u8, i32, i64 = DType.s8, DType.u8, DType.i32, DType.i64
    bool = getattr(DType, "bool")
    AnyDType = DType


class stochastic(NamedTuple):
    """cast's `round`: up with the probability of the discarded fraction, by the random numbers of a seed."""

    seed: int


def as_dtype(item: Any) -> DType | None:
    """A dtype, its name, or numpy's, ml_dtypes' or torch's of the same name; None for anything else."""
    if isinstance(item, (np.dtype, type)) and issubclass(item if isinstance(item, type) else item.type, np.generic):
        item = np.dtype(item).name
    elif str(type(item)) == "<class 'torch.dtype'>":
        item = str(item).removeprefix("torch.")
    return item if isinstance(item, DType) else parse_dtype(item) if isinstance(item, str) and item.isascii() else None


def as_round(item: Any) -> Round | None:
    """A way to round, its name, or stochastic(seed); None for anything else."""
    if isinstance(item, stochastic):
        return Round.stochastic
    found = getattr(Round, item, None) if isinstance(item, str) else item
    return found if isinstance(found, Round) else None


__all__ = ["f32", "f16", "bf16", "e4m3", "e5m2", "s8", "u8", "i32", "i64", "bool", "DType", "Round", "stochastic"]
