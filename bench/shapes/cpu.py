"""./dev bench shapes [SEED]: random cells in f32 on one thread, ours beside the better of OpenBLAS
and oneDNN, alone and with a loop behind it as one would write it.

Usage: cpu.py BUILD [SEED] [--cells N] [--seconds S]. Writes cpu_shapes.json to --out.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import cells
import loops
import report

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def compiled_loops(drawn: list[cells.Cell], folder: pathlib.Path) -> pathlib.Path:
    """A library with a loop for each cell; the parts of it are compiled beside each other."""
    parts = max(1, min(os.cpu_count() or 1, 8))
    running = []
    for part in range(parts):
        text = loops.PRELUDE + "".join(loops.loop(c.epilogue, f"cell_{c.number}")
                                       for c in drawn[part::parts])
        source = folder / f"loops{part}.cpp"
        source.write_text(text)
        running.append(subprocess.Popen(
            [os.environ.get("CXX", "c++"), "-std=c++17", "-O3", "-march=native", "-ffast-math",
             "-w", "-fPIC", "-c", source, "-o", source.with_suffix(".o")]))
    if any(process.wait() for process in running):
        raise SystemExit("the loops do not compile")
    library = folder / "loops.so"
    subprocess.run(["c++", "-shared", "-o", library,
                    *(folder / f"loops{part}.o" for part in range(parts)), "-lm"], check=True)
    return library


def request(cell: cells.Cell) -> dict:
    return {"number": cell.number, "m": cell.m, "n": cell.n, "k": cell.k,
            "b_contiguous": cell.b_contiguous, "text": cell.epilogue.language("f32"),
            "symbol": f"cell_{cell.number}",
            "operands": [{"name": o.name, "values": o.values} for o in cell.epilogue.operands]}


def result(cell: cells.Cell, found: dict) -> dict:
    """A row as the GPU's: the better peer, alone and with its loop."""
    row = {"number": cell.number, "epilogue": cell.epilogue.name, "family": cell.epilogue.family,
           "m": cell.m, "n": cell.n, "k": cell.k, "batch": 1, "dtype": cell.dtype, "padding": 0,
           "b_contiguous": cell.b_contiguous, "operations": cell.operations, "bytes": cell.bytes(),
           "text": cell.epilogue.language("f32"), **found}
    plain = {name: found[name + "_ms"] for name in ("openblas", "onednn") if name + "_ms" in found}
    if "ours_ms" not in found or not plain:
        return row
    best = min(plain, key=plain.get)
    row["plain_ms"], row["plain"] = plain[best], best
    if found.get("loop_agrees", True) or "dropout" in cell.epilogue.pieces:
        row["best_peer"], row["best_peer_ms"] = min(
            ((f"{name} + loop", found[f"{name}_loop_ms"]) for name in plain), key=lambda x: x[1])
    return row


def products(rows: list[dict]) -> str:
    """Our plain product beside the peers', and what an epilogue adds to it."""
    timed = [r for r in rows if r.get("plain_ms")]
    speeds = [r["plain_ms"] / r["own_plain_ms"] for r in timed]
    text = (f"our plain product at 0.95 of the better peer's speed or more: "
            f"{100 * sum(x >= 0.95 for x in speeds) / len(speeds):.1f} % of {len(speeds)}; below "
            f"0.8: {sum(x < 0.8 for x in speeds)}; median {report.quantile(speeds, 0.5):.2f}, "
            f"worst {min(speeds):.2f}\n")
    lines = [["speed / peer's", "ours, ms", "peer, ms", "peer", "shape", "B by", "schedule"]]
    for r in sorted(timed, key=lambda r: r["plain_ms"] / r["own_plain_ms"])[:20]:
        lines.append([f"{r['plain_ms'] / r['own_plain_ms']:.2f}", f"{r['own_plain_ms']:.4g}",
                      f"{r['plain_ms']:.4g}", r["plain"], report.shape(r), r["b_contiguous"],
                      r["schedule"][:60]])
    text += "\nThe worst twenty plain products\n" + report.table(lines)
    text += "\n\nOver our own plain product\n"
    lines = [["class", "cells", "median", "p90", "worst"]]
    for name in dict.fromkeys(r["family"] for r in timed):
        for label, some in ((name, [r for r in timed if r["family"] == name]),
                            (f"{name}, K >= 256", [r for r in timed if r["family"] == name and
                                                   r["k"] >= 256])):
            over = [r["ours_ms"] / r["own_plain_ms"] for r in some]
            if over:
                lines.append([label, str(len(over)), f"{report.quantile(over, 0.5):.2f}",
                              f"{report.quantile(over, 0.9):.2f}", f"{max(over):.2f}"])
    return text + report.table(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument("--cells", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each cell")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "bench/results")
    options = parser.parse_args()
    seed = cells.fresh_seed() if options.seed is None else options.seed
    before = cells.used(seed)
    print(f"seed {seed}" + (f", used on {before['date']}: no claim" if before else ""))
    drawn = [cells.draw_cpu_cell(seed, number) for number in range(options.cells)]
    with tempfile.TemporaryDirectory() as folder:
        library = compiled_loops(drawn, pathlib.Path(folder))
        asked = pathlib.Path(folder) / "cells.jsonl"
        asked.write_text("".join(json.dumps(request(c)) + "\n" for c in drawn))
        done = subprocess.run([options.build / "bench/shapes_bench", asked, library,
                               str(options.seconds)], capture_output=True, text=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [result(cell, one) for cell, one in zip(drawn, found)]
    if done.returncode:
        print(f"stopped at cell {len(found)}: {drawn[len(found)].describe()}\n{done.stderr[-800:]}")
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), platform.machine())
    what = {"seed": seed, "claim": before is None, "device": model, "commit": cells.commit(),
            "versions": done.stderr.strip().splitlines()[0] if done.stderr.strip() else ""}
    if "Prescott" in what["versions"]:
        what["claim"] = False
        print("OpenBLAS does not know this processor and takes its kernels for SSE3: no claim. "
              "Set OPENBLAS_CORETYPE (SKYLAKEX with AVX-512, HASWELL with AVX2).")
    if before is None:
        cells.record(seed, {"for": "cpu", "commit": what["commit"]}, options.out / cells.SEEDS.name)
    status = report.write(what, rows, options.out, "cpu_shapes", "the hand-fused loop",
                          "the better plain product")
    if any(r.get("plain_ms") for r in rows):
        print("\n" + products(rows))
    apart = [r for r in rows if r.get("loop_agrees") is False and "dropout" not in r["epilogue"]]
    print(f"{len(apart)} loops differ from ours: " + "; ".join(r["epilogue"] for r in apart[:8]))
    return status or done.returncode


if __name__ == "__main__":
    sys.exit(main())
