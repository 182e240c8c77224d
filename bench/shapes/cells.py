"""Random cells: shapes as users bring them, dtypes, layouts and epilogues, all from one seed.

A seed is used once for a claim: used() says what it was used for, record() writes it down.
"""
from __future__ import annotations

import datetime
import json
import math
import pathlib
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from random import Random

from epilogues import Epilogue, Operand, draw_epilogue

SEEDS = pathlib.Path(__file__).resolve().parent.parent / "results/shapes_seeds.json"

# What models have as widths.
WIDTHS = (768, 1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 11008, 12288,
          13824, 14336, 16384, 18432, 28672, 32000)
MOST_ELEMENTS, MOST_OPERATIONS = 1 << 28, 2e13


@dataclass
class Cell:
    number: int
    epilogue: Epilogue
    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "bf16"
    b_contiguous: str = "k"  # B is stored N x K, as a weight; "n": K x N
    padding: int = 0         # elements behind each row of A

    @property
    def operations(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k

    def bytes(self) -> float:
        """What must move: every operand and output once."""
        own = {"f32": 4, "bf16": 2, "f16": 2}[self.dtype]
        size = {"own": own, "f32": 4, "i64": 8, "bool": 1, "s8": 1, "e4m3": 1}
        total = own * self.batch * (self.m * self.k + self.k * self.n)
        for x in (*self.epilogue.operands, *self.epilogue.outputs):
            batches = 1 if isinstance(x, Operand) and x.kind != "tile" else self.batch
            total += size[x.dtype] * batches * math.prod(self.shape_of(x))
        return float(total)

    def shape_of(self, x) -> tuple[int, ...]:
        """Of an operand or output, without its batch."""
        columns = self.n // 2 if x.halved else self.n
        if x.kind == "group":
            return self.m, self.n // self.epilogue.needs_even
        return {"tile": (self.m, columns), "row": (columns,), "col": (self.m,),
                "scalar": ()}[x.kind]

    def describe(self) -> str:
        text = f"{self.m} x {self.n} x {self.k}"
        if self.batch > 1:
            text = f"{self.batch} of {text}"
        details = [self.dtype] if self.dtype != "bf16" else []
        details += ["B by N"] if self.b_contiguous == "n" else []
        details += [f"A + {self.padding}"] if self.padding else []
        return text + (f" ({', '.join(details)})" if details else "")


def _between(rng: Random, low: float, high: float) -> int:
    """Log-uniform."""
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def _width(rng: Random, low: int, high: int) -> int:
    """Now and then any number; mostly a multiple of 8, 64 or 256; or what a model has."""
    kind = rng.random()
    if kind < 0.25:
        return rng.choice([w for w in WIDTHS if low <= w <= high])
    unit = 1 if kind < 0.29 else 8 if kind < 0.5 else 64 if kind < 0.75 else 256
    return max(low, -(-_between(rng, low, high) // unit) * unit)


def draw_cell(seed: int, number: int, families: dict[str, int] | None = None) -> Cell:
    """Cell `number` of a seed: the same, whichever others are drawn."""
    rng = Random(f"{seed} {number}")
    while True:
        m, n, k = _between(rng, 1, 20000), _width(rng, 128, 40000), _width(rng, 64, 20000)
        batch = rng.choice((2, 4, 8, 16)) if rng.random() < 0.08 else 1
        epilogue = draw_epilogue(rng, n, families)
        unit = epilogue.needs_even
        n = -(-n // unit) * unit
        cell = Cell(number, epilogue, m, n, k, batch, "f16" if rng.random() < 0.15 else "bf16",
                    "n" if rng.random() < 0.15 else "k",
                    rng.choice((8, 64, 3)) if rng.random() < 0.08 else 0)
        if batch * m * n <= MOST_ELEMENTS and cell.operations <= MOST_OPERATIONS:
            return cell


def draw_neighbour(seed: int, number: int) -> Cell:
    """A dozen shapes of one epilogue in a row, whose schedules share their kernels."""
    group = Random(f"{seed} {number // 12} epilogue")
    epilogue = draw_epilogue(group, 256)
    rng = Random(f"{seed} {number} shape")
    while True:
        m, n, k = _between(rng, 1, 20000), _between(rng, 128, 40000), _between(rng, 64, 20000)
        cell = Cell(number, epilogue, m, -(-n // 256) * 256, -(-k // 64) * 64)
        if m * cell.n <= MOST_ELEMENTS and cell.operations <= MOST_OPERATIONS:
            return cell


def draw_small_cell(seed: int, number: int) -> Cell:
    """The same epilogues over what a CPU checks in a moment; for trying the instrument."""
    cell = draw_cell(seed, number)
    rng = Random(f"{seed} {number} small")
    unit = math.lcm(cell.epilogue.needs_even, 2)
    cell.m, cell.k = rng.randrange(1, 70), rng.randrange(1, 100)
    cell.n = -(-rng.randrange(1, 200) // unit) * unit
    cell.batch = min(cell.batch, 3)
    return cell


def draw_cpu_cell(seed: int, number: int) -> Cell:
    """f32, as small as epilogues behind small products are."""
    rng = Random(f"{seed} {number} cpu")
    while True:
        m, n, k = (_between(rng, 1, 4000) for _ in range(3))
        epilogue = draw_epilogue(rng, n)
        n = -(-n // epilogue.needs_even) * epilogue.needs_even
        cell = Cell(number, epilogue, m, n, k, dtype="f32", b_contiguous=rng.choice("kn"))
        if n <= 4096 and "e4m3" not in {o.dtype for o in epilogue.outputs}:
            return cell


# ---- classes -------------------------------------------------------------------------------------


ROWS = ((1, 16), (17, 128), (129, 512), (513, 2048), (2049, 20000))
FAMILY_NAMES = {
    "plain": "plain", "elementwise": "elementwise, gates, residual",
    "rows": "row softmax, l2 norm, rmsnorm", "layer_norm": "layernorm",
    "quantised": "quantised by rows, columns, groups", "dropout": "dropout",
    "columns": "column statistics", "row_statistics": "row statistics beside a store",
    "losses": "losses, argmax, two largest"}


def classes_of(row: dict) -> list[str]:
    """Of a result with m, n, k, batch, family and operations, or with classes of its own."""
    if "classes" in row:
        return row["classes"]
    found = [f"M {low}-{high}" for low, high in ROWS if low <= row["m"] <= high]
    found.append(FAMILY_NAMES[row["family"]])
    if row["n"] % 8 or row["k"] % 8:
        found.append("N or K no multiple of 8")
    if row["batch"] > 1:
        found.append("batches")
    if row["dtype"] == "f16":
        found.append("f16")
    if row["b_contiguous"] == "n" or row["padding"]:
        found.append("B by N, or rows apart")
    if row["operations"] >= 5e10:
        found.append("5e10 operations or more")
    return found


# ---- seeds ---------------------------------------------------------------------------------------


def commit() -> str:
    """What is measured; a copy of the tree may lack its history, or a machine git."""
    if shutil.which("git") is None:
        return ""
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip()


def fresh_seed() -> int:
    return secrets.randbelow(10 ** 9)


def used(seed: int) -> dict | None:
    """What a seed was used for, if it was."""
    entries = json.loads(SEEDS.read_text()) if SEEDS.exists() else []
    return next((e for e in entries if e["seed"] == seed), None)


def record(seed: int, what: dict, path: pathlib.Path = SEEDS) -> None:
    entries = json.loads(SEEDS.read_text()) if SEEDS.exists() else []
    entries.append({"seed": seed, "date": datetime.date.today().isoformat(), **what})
    path.write_text("[" + ",\n ".join(map(json.dumps, entries)) + "]\n")
