"""./dev bench: the CPU's table. Usage: run.py BUILD [--seconds S].

Runs gemm_bench and suite_bench of BUILD, writes bench/results/cpu.json and cpu.md; draw.py makes the picture. Ratios are of medians taken in turns
in one process; nothing is said of outputs that disagree. With one thread times are processor time, with two the wall's.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import subprocess

root = pathlib.Path(__file__).resolve().parent.parent
results = root / "bench/results"

# Bars, as ratios of speeds (ours over the other).
PLAIN = {"256": 0.97, "cpu_square": 0.97, "cpu_ffn": 0.97, "2048": 0.97, "m1": 0.95, "m8": 1.3, "m64": 1.3, "s8_square": 0.8, "s8_ffn": 0.8}
PACKED = 0.95
# Time over our own plain product's, at K >= 768: no transcendental, one, or more of them and two phases.
OVER_PLAIN = {"bias_relu": 1.05, "axpby": 1.05, "rowmax": 1.05, "argmax": 1.05, "bias_gelu": 1.12, "bias_gelu_res_aux": 1.12, "swiglu": 1.12,
              "dgelu_dbias": 1.25, "bce": 1.25, "xent": 1.25, "rmsnorm": 1.25, "softmax": 1.25}
HAND, POST_OPS, STREAM, COMPILE_MS = 0.95, 0.95, 0.85, 2.0


def rows_of(command):
    done = subprocess.run([*map(str, command), "--json"], capture_output=True, text=True, check=True)
    return done.stderr.strip(), [json.loads(line) for line in done.stdout.splitlines()]


def grouped(rows, *keys):
    groups = {}
    for row in rows:
        if row["agrees"]:
            groups.setdefault(tuple(row[k] for k in keys), {})[row["contender"]] = row
    return groups


def against(value, bar, better=lambda value, bar: value >= bar):
    """A ratio, bold where it misses its bar."""
    if value is None:
        return ""
    return f"{value:.2f}" if bar is None or better(value, bar) else f"**{value:.2f}**"


def table(head, lines):
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, ["---"] * len(head), *lines])


def products(rows):
    lines = []
    for (case, layout, threads), by in grouped(rows, "case", "b", "threads").items():
        speed = {name: row["median_gflops"] for name, row in by.items()}
        fast = {name: row["p90_gflops"] for name, row in by.items()}
        plain = {name: value for name, value in speed.items() if name in ("openblas", "onednn")}
        peer = max(plain, key=plain.get, default=None)
        ratio = speed["postlude"] / plain[peer] if peer else None
        packed = speed["postlude packed"] / speed["onednn packed"] if {"postlude packed", "onednn packed"} <= speed.keys() else None
        cell = lambda name: f"{speed[name]:.1f} ({fast[name]:.1f})" if name in speed else ""
        # A prepacked operand has a bar where the plain product has: few rows are another question.
        bar = PACKED if case in ("256", "cpu_square", "cpu_ffn", "2048") else None
        lines.append([case, layout, threads, cell("postlude"), cell(peer) + f" {peer}" if peer else "", against(ratio, PLAIN.get(case)),
                      cell("postlude packed"), cell("onednn packed"), against(packed, bar)])
    return table(["case", "B", "threads", "ours", "better plain peer", "ours / peer", "ours packed", "oneDNN packed", "packed / packed"], lines)


def types(rows):
    """The 16-bit types beside our own f32 of the same numbers."""
    lines = []
    for (case, layout, threads), by in grouped(rows, "case", "b", "threads").items():
        if "postlude f32" in by:
            speed, own = by["postlude"]["median_gflops"], by["postlude f32"]["median_gflops"]
            lines.append([case, layout, threads, f"{speed:.1f}", f"{own:.1f}", against(speed / own, 0.9)])
    return table(["case", "B", "threads", "ours", "our f32", "ratio"], lines)


def suite_ratios(by):
    ms = {name: row["median_ms"] for name, row in by.items()}
    ours = ms["postlude"]
    hand = min((ms[name] for name in ("openblas + loop", "onednn + loop") if name in ms), default=None)
    post = ms.get("onednn post-ops")
    return {"over_plain": ours / ms["postlude plain"], "hand": hand / ours if hand else None,
            # oneDNN's sum stands in C's place: so do we for that ratio.
            "post_ops": post / ms.get("postlude in place", ours) if post else None}


def suite(rows):
    lines, hands = [], []
    for (shape, k, threads, epilogue), by in grouped(rows, "shape", "k", "threads", "epilogue").items():
        r = suite_ratios(by)
        if r["hand"] and shape != "small" and threads == 1:
            hands.append(r["hand"])
        best = by["postlude"]
        lines.append([shape, threads, epilogue, f"{best['median_ms']:.2f} ({best['p90_speed_ms']:.2f})",
                      against(r["over_plain"], OVER_PLAIN.get(epilogue) if k >= 768 else None, lambda v, b: v <= b),
                      against(r["hand"], HAND), against(r["post_ops"], POST_OPS)])
    mean = math.exp(sum(map(math.log, hands)) / len(hands)) if hands else float("nan")
    return table(["shape", "threads", "epilogue", "ours, ms", "time / our plain", "speed / best hand-fused", "speed / post-ops"], lines), mean


def streams(rows):
    lines = []
    for (threads,), by in grouped(rows, "threads").items():
        speed = {name: row["bytes"] / row["median_ms"] * 1e-6 for name, row in by.items()}
        for name in speed:
            lines.append([name, threads, f"{speed[name]:.1f}", "" if name == "copy" else against(speed[name] / speed["copy"], STREAM)])
    return table(["graph", "threads", "GB/s", "of a copy's"], lines)


def compilation(rows):
    lines = []
    for (epilogue,), by in grouped(rows, "epilogue").items():
        lines.append([epilogue, against(by["compile"]["median_ms"], COMPILE_MS, lambda v, b: v < b), f"{by['bind']['median_ms']:.3f}",
                      f"{by['compile']['workspace_bytes'] / 2**20:.2f}"])
    return table(["epilogue", "text to plan, ms", "bind, ms", "workspace, MiB"], lines)


def page(data):
    suite_table, mean = suite(data["suite"])
    disagree = [f"{r.get('epilogue', r.get('case'))} {r.get('shape', '')} {r['contender']}"
                for r in data["products"] + data["suite"] if not r["agrees"]]
    return f"""# CPU, {data["date"]}

{data["machine"]}, {data["cores"]} cores, load {data["load"]:.1f} while measuring; {data["versions"]}; {data["compiler"]}. Medians of runs
in turns, in brackets the speed that a tenth of the runs exceed. With one thread times are the thread's processor time, with two the
wall's, beside other programs: compare within a row only, and claim nothing from two threads under load. Bold misses its bar.
{"Outputs that disagree, and so have no ratio: " + ", ".join(disagree) + "." if disagree else "All outputs agree."}

## Plain products, GFLOP/s

{products(data["products"])}

## 16-bit inputs, GFLOP/s

{types(data["products"])}

## The suite, f32, B stored N x K

Hand-fused: the better of OpenBLAS and oneDNN, with one loop behind it, compiled -O3 -march=native -ffast-math. The geometric mean of that
column with one thread (without `small`) is **{mean:.2f}**.

{suite_table}

## Stream, 4096 x 4096 f32, on the bytes that must move

{streams(data["stream"])}

## Compilation and memory, at 512 x 3072 x 768, one thread

{compilation(data["compile"])}
"""


def measured(build, seconds):
    seconds = ["--seconds", seconds]
    versions, plain = rows_of([build / "bench/gemm_bench", *seconds])
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.split("\n")[0]
    bench = lambda what: rows_of([build / "bench/suite_bench", what, *seconds])[1]
    return {"date": datetime.date.today().isoformat(), "machine": model, "cores": os.cpu_count(), "versions": versions, "compiler": compiler,
            "products": plain, "suite": bench("suite"), "stream": bench("stream"), "compile": bench("compile"), "load": os.getloadavg()[2]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path, nargs="?", help="without it, only the table of the last results is made again")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each case")
    options = parser.parse_args()
    if options.build:
        (results / "cpu.json").write_text(json.dumps(measured(options.build, options.seconds), indent=0) + "\n")
    text = page(json.loads((results / "cpu.json").read_text()))
    (results / "cpu.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
