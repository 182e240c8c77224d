"""Reductions described as loops (postlude.te), timed on this GPU in turns with a copy on the device and with torch.compile.

Usage: loops.py [--out FOLDER] [--quick]     writes h200_loops.json there (bench/results unless named) and prints a line a program

A time is the median of 15 runs. Before each a gigabyte is written, which empties L2 and gives the host time to launch. `of_copy`:
the time of torch's copy that moves as many bytes as a program must, over the program's; `of_long_copy`: its bytes a second over those
of a copy of the first program's matrix. --quick: without torch.compile.
"""
import argparse
import json
import pathlib
import statistics
import time

import torch

from postlude import te

RUNS, WARM = 15, 3
F32, BF16 = torch.float32, torch.bfloat16


def reduction(name, shape, axes, reduce, of=lambda x: x, dtype=F32):
    """A tensor reduced over `axes` as te describes it, and as torch does: name, arrays, te's outputs, torch's function."""
    sizes = [te.var(f"s{d}") for d in range(len(shape))]
    a = te.placeholder(tuple(sizes), name="A", dtype=str(dtype).removeprefix("torch."))
    kept = [d for d in range(len(shape)) if d not in axes]
    k = {d: te.reduce_axis((0, sizes[d]), f"k{d}") for d in axes}
    element = lambda i: a[tuple(k[d] if d in k else i[kept.index(d)] for d in range(len(shape)))]
    over = [k[d] for d in axes]
    b = te.compute(tuple(sizes[d] for d in kept), lambda *i: getattr(te, reduce)(of(element(i)), axis=over), name="B")
    outputs = list(b) if isinstance(b, tuple) else [b]
    functions = {"sum": lambda x: of(x.float()).sum(axes), "max": lambda x: of(x).amax(axes), "min": lambda x: of(x).amin(axes),
                 "argmax": lambda x: x.argmax(axes[0])}
    x = torch.randn(shape, device="cuda").to(dtype)
    kinds = [torch.int64, F32] if reduce == "argmax" else [F32]
    return name, x, a, outputs, [torch.empty([shape[d] for d in kept], device="cuda", dtype=t) for t in kinds], functions[reduce]


def row_sums_by_hand(rows, threads, loads=1):
    """The seed's schedule by rfactor: rows by blocks and threadIdx.y, columns by threadIdx.x."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b)
    ko, ki = s[b].split(b.op.reduce_axis[0], factor=threads * loads)
    if loads > 1:
        ki, side = s[b].split(ki, factor=loads)
    bf = s.rfactor(b, ki)
    if loads > 1:
        s[bf].unroll(s[bf].op.reduce_axis[1])
    xo, xi = s[b].split(s[b].op.axis[0], factor=rows)
    s[b].bind(xo, te.thread_axis("blockIdx.x"))
    s[b].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[bf].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    return te.build(s, [a, b], "cuda")


def product(shape):
    n, m = te.var("n"), te.var("m")
    times = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, dtype=t), name="product")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    b = te.compute((n,), lambda i: times(a[i, k], axis=k), name="B")
    x = torch.randn(shape, device="cuda").sign()
    return "custom product of rows", x, a, [b], [torch.empty(shape[0], device="cuda")], lambda x: x.prod(1)


def window(rows=None, threads=256):
    """The seed's filter: by the chosen schedule, or by so many rows a thread and threads a block."""
    n = te.var("n")
    x, f = te.placeholder((n, n), name="Input"), te.placeholder((3, 3), name="Filter")
    di, dj = te.reduce_axis((0, 3), "di"), te.reduce_axis((0, 3), "dj")
    y = te.compute((n - 2, n - 2), lambda i, j: te.sum(x[i + di, j + dj] * f[di, dj], axis=[di, dj]), name="Output")
    if rows is None:
        return te.build(y, [x, f, y], "cuda")
    s = te.create_schedule(y)
    jo, ji = s[y].split(y.op.axis[1], factor=threads)
    io, ii = s[y].split(y.op.axis[0], factor=rows)
    s[y].reorder(io, jo, ji, di, dj, ii)
    for axis in (di, dj, ii):
        s[y].unroll(axis)
    s[y].bind(io, te.thread_axis("blockIdx.y"))
    s[y].bind(jo, te.thread_axis("blockIdx.x"))
    s[y].bind(ji, te.thread_axis("threadIdx.x"))
    return te.build(s, [x, f, y], "cuda")


def softmax(step, columns=4096, threads=256):
    """The row softmax of docs/loops.md, by one of its schedules for a GPU."""
    n = te.var("n")
    a = te.placeholder((n, columns), name="A")
    k, q = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "q")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="top")
    e = te.compute((n, columns), lambda i, j: te.exp(a[i, j] - top[i]), name="E")
    total = te.compute((n,), lambda i: te.sum(e[i, q], axis=q), name="total")
    y = te.compute((n, columns), lambda i, j: e[i, j] / total[i], name="S")
    if step == "chosen":
        return te.build(y, [a, y], "cuda")
    s = te.create_schedule(y)
    thread = te.thread_axis("threadIdx.x")

    def along(stage, axis):  # its threads have four neighbours at a time
        _, inner = s[stage].split(axis, factor=threads * 4)
        return s[stage].split(inner, factor=4)

    for stage in (y, e):
        if step != "as described" and not (stage is e and step == "E inlined"):
            lane, side = along(stage, stage.op.axis[1])
            s[stage].unroll(side)
            s[stage].bind(lane, thread)
    for stage in (top, total) if step != "as described" else ():
        lane, side = along(stage, stage.op.reduce_axis[0])
        parts = s.rfactor(stage, lane)
        s[parts].unroll(s[parts].op.reduce_axis[1])
        s[stage].bind(s[stage].op.reduce_axis[0], thread)
        s[parts].compute_at(s[stage], s[stage].op.reduce_axis[0])
    at_root = {"as described": (), "a row a block": (top, e, total, y), "E inlined": (top, total, y), "one kernel": (y,)}[step]
    for stage in at_root:
        s[stage].bind(stage.op.axis[0], te.thread_axis("blockIdx.x"))
    if step == "E inlined":
        s[e].compute_inline()
    if step == "one kernel":
        for stage in (total, e, top):
            s[stage].compute_at(s[y], y.op.axis[0])
    return te.build(s, [a, y], "cuda")


def argmax(step, threads=256):
    """argmax of rows, by one of its schedules for a GPU."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    at, top = te.compute((n,), lambda i: te.argmax(a[i, k], axis=k), name="I")
    if step == "chosen":
        return te.build([at, top], [a, at, top], "cuda")
    s = te.create_schedule([at, top])
    i = at.op.axis[0]
    if step == "a row a thread":
        outer, inner = s[at].split(i, factor=32)
        s[at].bind(outer, te.thread_axis("blockIdx.x"))
        s[at].bind(inner, te.thread_axis("threadIdx.x"))
    elif step != "as described":
        wide = step == "16 bytes a load"
        _, lane = s[at].split(k, factor=threads * (4 if wide else 1))
        if wide:
            lane, _ = s[at].split(lane, factor=4)
        parts = s.rfactor(at, lane)[0]
        if wide:
            s[parts].unroll(s[parts].op.reduce_axis[1])
        s[at].bind(i, te.thread_axis("blockIdx.x"))
        s[at].bind(s[at].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
        s[parts].compute_at(s[at], s[at].op.reduce_axis[0])
    return te.build(s, [a, at, top], "cuda")


class Clock:
    def __init__(self):
        self.flushed = torch.empty(1 << 28, device="cuda")

    def once(self, run):
        self.flushed.fill_(1.0)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def turns(self, runs):
        """Medians in ms of several functions, in turns."""
        times = [[] for _ in runs]
        for i in range(WARM + RUNS):
            for j, run in enumerate(runs):
                ms = self.once(run)
                if i >= WARM:
                    times[j].append(ms)
        return [statistics.median(t) for t in times]


def host_us(run):
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        run()
    us = (time.perf_counter() - start) / 50 * 1e6
    torch.cuda.synchronize()
    return us


def close(name, out, wanted):
    scale = wanted.float().abs().max().clamp(min=1)
    wrong = (out.float() - wanted.float()).abs().max() / scale
    if not wrong < 1e-3:
        print(f"WRONG {name}: {wrong.item():.3g} of the largest", flush=True)
    return bool(wrong < 1e-3)


def compare_with_copy(clock):
    n, m = 16384, 4096
    source = torch.randn(n, m, device="cuda")
    target = torch.empty_like(source)
    rows = []

    def add(name, moved, run, right):
        run()
        half = moved // 8  # elements, each read and written
        copied_from, copied_to = source.view(-1)[:half], target.view(-1)[:half]
        ours, beside, long = clock.turns([run, lambda: copied_to.copy_(copied_from), lambda: target.copy_(source)])
        of_copy, of_long_copy = beside / ours, moved / ours / (8 * source.numel() / long)
        rows.append({"program": name, "ms": ours, "copy_ms": beside, "of_copy": of_copy, "of_long_copy": of_long_copy,
                     "host_us": host_us(run), "right": right()})
        print(f"{name:42s} {ours:8.4f} ms  {of_copy:5.2f} of a copy ({beside:.4f} ms), {of_long_copy:.2f} of a long one  "
              f"host {rows[-1]['host_us']:.0f} us", flush=True)

    out = torch.empty(n, device="cuda")
    read = source.numel() * 4
    wanted = source.sum(1)
    for how in ((8, 32, 1), (2, 128, 1), (1, 256, 1), (8, 32, 4), (1, 256, 4)):
        hand = row_sums_by_hand(*how)
        add("row sums by rfactor, %d rows of %d x %d" % how, read, lambda: hand(source, out), lambda: close("rows", out, wanted))
    for program in (reduction("row sums", (n, m), (1,), "sum"), reduction("column sums", (n, m), (0,), "sum"),
                    reduction("argmax of rows", (n, m), (1,), "argmax"), product((n, m)),
                    reduction("sum of all", (n, m), (0, 1), "sum")):
        name, x, a, outputs, arrays, f = program
        chosen = te.build(outputs, [a, *outputs], "cuda")
        add(f"{name}, chosen", read, lambda: chosen(x, *arrays), lambda: close(name, arrays[0], f(x)))
    size = 4096
    x, f, y = torch.randn(size, size, device="cuda"), torch.randn(3, 3, device="cuda"), torch.empty(size - 2, size - 2, device="cuda")
    wanted = torch.nn.functional.conv2d(x[None, None].double(), f[None, None].double())[0, 0].float()
    for by in ((), (4, 256), (8, 256), (8, 128), (16, 128)):
        filter = window(*by)
        add("3 x 3 filter, " + ("%d rows a thread, %d threads" % by if by else "chosen"), (x.numel() + y.numel()) * 4,
            lambda: filter(x, f, y), lambda: close("filter", y, wanted))
    return rows


def time_steps(clock):
    """The schedules by hand of docs/loops.md, all of a program in turns with a copy of as many bytes."""
    n, m = 16384, 4096
    x = torch.randn(n, m, device="cuda")
    y, place, top = torch.empty_like(x), torch.empty(n, device="cuda", dtype=torch.int64), torch.empty(n, device="cuda")
    half = x.view(-1)[:n * m // 2]
    wanted = torch.softmax(x, 1)
    programs = [
        ("softmax of rows", softmax, ("as described", "a row a block", "E inlined", "one kernel", "chosen"), (x, y),
         lambda: y.copy_(x), lambda: close("softmax", y, wanted)),
        ("argmax of rows", argmax, ("as described", "a row a thread", "a row a block", "16 bytes a load", "chosen"), (x, place, top),
         lambda: y.view(-1)[:half.numel()].copy_(half), lambda: close("argmax", place, x.argmax(1))),
    ]
    rows = []
    for name, make, steps, arrays, copy, right in programs:
        built = [make(step) for step in steps]
        are_right = [(module(*arrays), right())[1] for module in built]
        *times, copied = clock.turns([lambda module=module: module(*arrays) for module in built] + [copy])
        for step, ms, is_right in zip(steps, times, are_right):
            rows.append({"program": name, "step": step, "ms": ms, "of_copy": copied / ms, "right": is_right})
            print(f"{name + ', ' + step:42s} {ms:8.4f} ms  {copied / ms:5.2f} of a copy ({copied:.4f} ms)", flush=True)
    return rows


def compare_with_compile(clock, compiled):
    square = lambda x: x * x
    programs = [
        reduction("sum of rows, 5000 x 3000", (5000, 3000), (1,), "sum"),
        reduction("sum of columns, 6000 x 2500", (6000, 2500), (0,), "sum"),
        reduction("max of rows, 300 x 100000", (300, 100000), (1,), "max"),
        reduction("sum over 0 and 2, 48 x 500 x 1500", (48, 500, 1500), (0, 2), "sum"),
        reduction("sum over 1, 100 x 700 x 900", (100, 700, 900), (1,), "sum"),
        reduction("argmax of rows, 7000 x 3100", (7000, 3100), (1,), "argmax"),
        reduction("sum of all, 6100 x 4100", (6100, 4100), (0, 1), "sum"),
        reduction("sum of squares of rows, bf16, 9000 x 5000", (9000, 5000), (1,), "sum", square, BF16),
        reduction("min over 1 and 2, 900 x 70 x 300", (900, 70, 300), (1, 2), "min"),
        reduction("sum over 0, 1 and 3, 12 x 300 x 90 x 70", (12, 300, 90, 70), (0, 1, 3), "sum"),
    ]
    rows = []
    for name, x, a, outputs, arrays, f in programs:
        ours = te.build(outputs, [a, *outputs], "cuda")
        run = lambda: ours(x, *arrays)
        run()
        row = {"program": name, "right": close(name, arrays[0], f(x))}
        if compiled:
            torch._dynamo.reset()
            theirs = torch.compile(f, dynamic=False)
            theirs(x)
            row["ms"], row["compile_ms"] = clock.turns([run, lambda: theirs(x)])
            row["ratio"] = row["ms"] / row["compile_ms"]
        else:
            row["ms"], = clock.turns([run])
        row["gbs"] = x.numel() * x.element_size() / row["ms"] / 1e6
        rows.append(row)
        print(f"{name:44s} {row['ms']:8.4f} ms  {row['gbs']:5.0f} GB/s" +
              (f"  {row['ratio']:.2f} of torch.compile ({row['compile_ms']:.4f})" if compiled else ""), flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=str(pathlib.Path(__file__).parents[1] / "results"))
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(1)
    clock = Clock()
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "copy": compare_with_copy(clock),
               "steps": time_steps(clock)}
    results["compile"] = compare_with_compile(clock, not arguments.quick)
    ratios = [row["ratio"] for row in results["compile"] if "ratio" in row]
    if ratios:
        results["geomean"] = statistics.geometric_mean(ratios)
        print(f"geometric mean of time over torch.compile's: {results['geomean']:.3f}")
    (pathlib.Path(arguments.out) / "h200_loops.json").write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(row["right"] for row in results["copy"] + results["steps"] + results["compile"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
