"""./dev gpu shapes [SEED]: random cells on one GPU, ours beside cuBLAS's plain product and
torch.compile. With --schedules: several schedules of ours a cell, the data of a cost model. With
--conv: random convolutions beside cuDNN (convs.py).

One process a core prepares cells (compiles, checks values against float64), while none is timed.
Then they are timed one after another by the process that prepared them, alone on the device: L2 is
flushed and a wait on the device hides the host's time before each run, contenders take turns.
A first call is timed where it is prepared, so beside as many others as there are cores; the slowest
are timed again at the end, alone, by a new process and without what was compiled before.

Every result is appended to cells.jsonl in --out as it comes; report.py makes the rest of it, also
of what a run left that was cut short. --tiny runs small cells on a CPU, for trying this file.
"""
from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import json
import math
import multiprocessing
import os
import pathlib
import platform
import signal
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import wait as wait_for_any
from random import Random

import cells
import convs
import report
from cells import Cell
from epilogues import torch_form

ROUNDS, WARM = 15, 2
COMPILE_LIMIT, COMMAND_LIMIT = 40, 120  # seconds for torch.compile, and for all of a cell
WAIT_CYCLES = 300_000                   # on the device, 0.15 ms
FLUSHED = 192 << 20                     # bytes, more than three times L2
LARGE = 2e9                             # bytes in float64: such cells are checked one at a time
SCHEDULES, SCHEDULES_LIMIT = 24, 30     # of a cell, and seconds to compile them
ALONE = 40                              # first calls that are timed again, at most


class Machine:
    """torch, Postlude and a device, of one process."""

    def __init__(self, device: str, lock: str) -> None:
        import postlude
        import torch

        self.torch, self.post, self.device, self.lock = torch, postlude, device, lock
        self.cuda = device == "cuda"
        torch.set_grad_enabled(False)
        torch.set_num_threads(1)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.cycles = WAIT_CYCLES
        self.flush = torch.empty(FLUSHED, dtype=torch.int8, device=device) if self.cuda else None
        warm = torch.randn(256, 256, device=device, dtype=torch.bfloat16)
        postlude.matmul(warm, warm, epilogue=postlude.parse("def f(acc):\n    return acc\n"))
        self.synchronize()

    def synchronize(self) -> None:
        if self.cuda:
            self.torch.cuda.synchronize()

    @contextlib.contextmanager
    def alone(self, needed: bool = True):
        """Among the processes of this run."""
        with open(self.lock, "w") as file:
            if needed:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def operands(self, cell: Cell):
        """A, B (K x N) and the epilogue's operands, the same each time."""
        torch = self.torch
        draw = torch.Generator(self.device).manual_seed(cell.number)
        own = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
        dtype = own[cell.dtype]

        def normal(*shape):
            return torch.randn(shape, generator=draw, device=self.device)

        def uniform(*shape):
            return torch.rand(shape, generator=draw, device=self.device)

        batch = (cell.batch,) if cell.batch > 1 else ()
        a = normal(*batch, cell.m, cell.k + cell.padding).to(dtype)[..., :cell.k]
        lines, length = (cell.n, cell.k) if cell.b_contiguous == "k" else (cell.k, cell.n)
        b = (normal(*batch, lines, length) / cell.k ** 0.5).to(dtype)
        b = b.transpose(-1, -2) if cell.b_contiguous == "k" else b
        found = {}
        for o in cell.epilogue.operands:
            shape = (*(batch if o.kind == "tile" else ()), *cell.shape_of(o))
            kind = dtype if o.dtype == "own" else own.get(o.dtype)
            found[o.name] = {
                "normal": lambda: normal(*shape).to(kind),
                "scale": lambda: (0.75 + 0.5 * uniform(*shape)).to(kind),
                "unit": lambda: uniform(*shape).to(kind),
                "keep": lambda: uniform(*shape) > 0.125,
                "label": lambda: torch.randint(0, cell.n, shape, generator=draw,
                                               device=self.device),
            }[o.values]()
        return a, b, found

    # What is timed --------------------------------------------------------------------------------

    def ours(self, cell: Cell, a, b, operands, schedule: str = ""):
        target = None
        if schedule and self.cuda:
            target = self.post.Target.cuda(0)
            target.schedule = schedule
        plan = self.plan(cell, a, b, operands, target)
        return plan, plan.bind(a, b, **operands)

    def plan(self, cell: Cell, a, b, operands, target=None):
        epilogue = self.post.parse(cell.epilogue.language(cell.dtype))
        return self.post.plan(a, b, epilogue=epilogue, target=target, **operands)

    def for_torch(self, cell: Cell, operands) -> list:
        """The operands with axes as torch's broadcasting wants them."""
        kinds = {o.name: o.kind for o in cell.epilogue.operands}
        return [x[:, None] if kinds[name] == "col" else x for name, x in operands.items()]

    def torch_program(self, cell: Cell):
        return torch_form(self.torch, cell.epilogue, cell.dtype, name=f"cell_{cell.number}")

    # Values ---------------------------------------------------------------------------------------

    def exact(self, cell: Cell, a, b, operands, lost: float = 0.0, astray: float = 0.0) -> list:
        """The outputs in float64; where an output is an index, the value that it is of. `lost`:
        that part of every sum over K is left out. `astray`: that part of |a| |b| / sqrt(K), the
        usual size of a sum of such products, is added to it."""
        torch, double = self.torch, [x.double() if x.is_floating_point() else x
                                     for x in self.for_torch(cell, operands)]
        a, b = a.double() * (1 - lost), b.double()
        if astray:
            length = a.norm(dim=-1, keepdim=True) * (astray / math.sqrt(cell.k))
            a, b = torch.cat([a, length], -1), torch.cat([b, b.norm(dim=-2, keepdim=True)], -2)
        return torch_form(torch, cell.epilogue, cell.dtype, exact=True)(a, b, *double)

    def cut(self, cell: Cell, a, b, operands, exact) -> list:
        """What a long K costs each element of the outputs: how far they are from those of sums cut
        to 1 - 2^-23 K / 16, or that much of such a sum's usual size away. Tensor cores add 16
        products to an f32 at once and drop what does not fit, each time less than 2^-23 of the sum
        so far, towards zero. Where the whole sum is nearly zero, those before it were not. (Up to
        K = 1342 that is below the 1e-5 of an f32 in error().)"""
        part = cell.k / 16 * 2.0 ** -23
        others = [self.exact(cell, a, b, operands, *way)
                  for way in ((part,), (0, part), (0, -part))]
        far = [[(x - r).abs().nan_to_num(0.0, 0.0) for x, r in zip(other, exact)]
               for other in others]
        return [functools.reduce(self.torch.maximum, each) for each in zip(*far)]

    def checked(self, cell: Cell, a, b, operands, outputs, exact) -> float:
        """The largest error over its bound, which is widened by cut() only where that is wanted:
        it takes a product in float64."""
        worst = self.error(cell, outputs, exact)
        if worst <= 1 or cell.k / 16 * 2.0 ** -23 <= 1e-5:
            return worst
        return self.error(cell, outputs, exact, self.cut(cell, a, b, operands, exact))

    def error(self, cell: Cell, outputs, exact, cut=None) -> float:
        """The largest error over its bound: half a unit of the output's last place, a thousandth
        of the mean magnitude, without zeros (a mask leaves few of the values that it is of), and
        what is given of cut()."""
        torch, worst = self.torch, 0.0
        for o, x, r, k in zip(cell.epilogue.outputs, outputs, exact, cut or [0.0] * len(exact)):
            scale = 1e-3 * r.abs().sum() / (r != 0).sum().clamp(min=1)
            if o.index_of:
                index = x.reshape(*r.shape[:-1], 1)
                inside = ((index >= 0) & (index < r.shape[-1])).all()
                short = r.amax(-1, keepdim=True) - r.gather(-1, index.clamp(0, r.shape[-1] - 1))
                worst = max(worst, float((short / scale).max()) if inside else float("inf"))
                continue
            x = x.double().reshape(r.shape)
            dtype = cell.dtype if o.dtype == "own" else o.dtype
            unit = {"bf16": 2 ** -8, "f16": 2 ** -11, "e4m3": 2 ** -4, "s8": 0.0,
                    "f32": 1e-5}[dtype]
            least = {"s8": 0.5, "e4m3": 2 ** -9, "f16": 2 ** -25}.get(dtype, 1e-30)
            bound = r.abs() * 1.05 * unit + scale + k + least
            same = (x == r) | (x.isnan() & r.isnan())
            ratio = torch.where(same, 0.0, (x - r).abs() / bound)
            worst = max(worst, float(torch.where(ratio.isnan(), float("inf"), ratio).max()))
        return worst

    # Times ----------------------------------------------------------------------------------------

    def times(self, calls: list, rounds: int) -> list[list[float]]:
        """Milliseconds of each call in each round, all in turns. Each round begins with the next: the
        last of a round are faster, whosoever they are (decision 0322)."""
        if not self.cuda:
            return [[self._host_ms(call) for _ in range(3)] for call in calls]
        torch, found = self.torch, [[] for _ in calls]
        for turn in range(WARM + rounds):
            events = []
            for x in range(len(calls)):
                at = (turn + x) % len(calls)
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                self.flush.zero_()
                torch.cuda._sleep(self.cycles)
                begin.record()
                calls[at]()
                end.record()
                late = begin.query()  # the device did not wait: the host's time is in it
                events.append((found[at], begin, end, late))
            self.synchronize()
            for one, begin, end, late in events:
                if late:
                    self.cycles = min(2 * self.cycles, 20 * WAIT_CYCLES)
                elif turn >= WARM:
                    one.append(begin.elapsed_time(end))
        return found

    def _host_ms(self, call) -> float:
        start = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - start)


class Job:
    """What a process keeps of a cell between its preparation and its timing."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.peer = None
        self.schedules: list[str] = []


@contextlib.contextmanager
def limited(seconds: int):
    def give_up(*_):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"


def results_of(call) -> tuple:
    results = call()
    return results if isinstance(results, tuple) else (results,)


def floor_ms(cell: Cell) -> float:
    return 1e3 * max(cell.operations / 790e12, cell.bytes() / 4.1e12) + 4.5e-3


def describe(cell: Cell) -> dict:
    e = cell.epilogue
    return {"number": cell.number, "epilogue": e.name, "family": e.family, "m": cell.m, "n": cell.n,
            "k": cell.k, "batch": cell.batch, "dtype": cell.dtype,
            "b_contiguous": cell.b_contiguous, "padding": cell.padding,
            "operations": cell.operations, "bytes": cell.bytes(), "floor_ms": floor_ms(cell),
            "text": e.language(cell.dtype)}


# ---- cells beside their peers --------------------------------------------------------------------


def first_call(machine: Machine, cell: Cell, a, b, operands):
    """The call, its outputs and its seconds. It ends when the host has launched it: the device
    works for others too."""
    machine.synchronize()
    start = time.perf_counter()
    _, call = machine.ours(cell, a, b, operands)
    outputs = results_of(call)
    seconds = time.perf_counter() - start
    machine.synchronize()
    return call, outputs, seconds


def prepare(machine: Machine, job: Job) -> dict:
    """Compiles ours and torch's and checks both."""
    cell, torch = job.cell, machine.torch
    a, b, operands = machine.operands(cell)
    call, outputs, seconds = first_call(machine, cell, a, b, operands)
    found = {"first_call_s": seconds, "schedule": call.describe()}
    elements = cell.m * cell.k + cell.k * cell.n + 8 * cell.m * cell.n
    with machine.alone(8 * cell.batch * elements > LARGE):
        exact = machine.exact(cell, a, b, operands)
        found["error_over_bound"] = machine.checked(cell, a, b, operands, outputs, exact)
        try:
            with limited(COMPILE_LIMIT):
                start = time.perf_counter()
                peer = torch.compile(machine.torch_program(cell), dynamic=False,
                                     fullgraph=True,
                                     backend="inductor" if machine.cuda else "aot_eager")
                theirs = peer(a, b, *machine.for_torch(cell, operands))
                machine.synchronize()
            found["peer_first_call_s"] = time.perf_counter() - start
            if "dropout" not in cell.epilogue.pieces:
                found["peer_error"] = machine.checked(cell, a, b, operands, theirs, exact)
            job.peer = peer
        except Exception as error:  # a peer that does not run here is no failure of ours
            found["peer_refused"] = first_line(error)
    return found


def measure(machine: Machine, job: Job) -> dict:
    cell, torch = job.cell, machine.torch
    a, b, operands = machine.operands(cell)
    _, call = machine.ours(cell, a, b, operands)
    contenders = {"ours": call, "cublas_plain": lambda: torch.matmul(a, b)}
    if job.peer is not None:
        given = machine.for_torch(cell, operands)
        contenders["torch.compile"] = lambda: job.peer(a, b, *given)
    samples = machine.times(list(contenders.values()), ROUNDS)
    found = {name: statistics.median(x) for name, x in zip(contenders, samples) if x}
    best = "torch.compile" if "torch.compile" in found else None
    return {"ours_ms": found["ours"], "cublas_plain_ms": found["cublas_plain"], "best_peer": best,
            "best_peer_ms": found.get(best), "runs": min(map(len, samples)),
            "schedule": call.describe()}


# ---- several schedules of ours -------------------------------------------------------------------


def wanted_schedules(cell: Cell, plan, most: int) -> list[str]:
    """The chooser's, best first, then neighbours of them: every knob drawn anew."""
    lines = plan.explain("schedule", cell.m, cell.n, cell.k).splitlines()
    kinds = ("pingpong", "cooperative", "turned ")
    ranked = [line.split("  ")[0] for line in lines if line.startswith(kinds)]
    rng, found = Random(cell.number), ranked[:most * 2 // 3]
    for _ in range(4 * most):
        if len(found) >= most or not ranked:
            break
        of = rng.choice(ranked[:8]).split(" split ")[0]
        turned = "turned " if of.startswith("turned ") else ""
        words = of.removeprefix("turned ").split()
        bm, bn, stages = words[1].split("x")
        words[1] = f"{bm}x{bn}x{rng.choice((int(stages), max(2, int(stages) - 1), 4, 3))}"
        words[3] = f"{rng.choice((32, 64))}x{rng.choice((2, 2, 3))}"
        words[5] = str(rng.choice((1, 2, 4))) if words[5] != "0" else "0"
        words[7] = str(rng.choice((1, 2, 3, 4, 6, 8, 12, 16)))
        text = turned + " ".join(words) + rng.choice(("", "", " split 2", " split 4", " split 8"))
        if text not in found:
            found.append(text)
    return found


def prepare_schedules(machine: Machine, job: Job) -> dict:
    cell = job.cell
    a, b, operands = machine.operands(cell)
    plan, call = machine.ours(cell, a, b, operands)
    first = results_of(call)
    job.schedules, refused = [""], 0
    started = time.monotonic()
    explained = plan if machine.cuda else machine.plan(cell, a, b, operands, "sm_90a")
    for schedule in wanted_schedules(cell, explained, SCHEDULES):
        if time.monotonic() - started > SCHEDULES_LIMIT:
            break
        try:
            outputs = results_of(machine.ours(cell, a, b, operands, schedule)[1])
        except machine.post.Error as error:
            refused += 1
            if error.code != "PL0402":
                raise
            continue
        values = [x.double() for x in first]
        if not any(o.index_of for o in cell.epilogue.outputs):
            wrong = machine.error(cell, outputs, values)
            if not wrong <= 2:
                raise ArithmeticError(f"{schedule} differs from {call.describe()}: {wrong}")
        job.schedules.append(schedule)
    return {"schedules": len(job.schedules), "refused": refused}


def measure_schedules(machine: Machine, job: Job) -> dict:
    cell = job.cell
    a, b, operands = machine.operands(cell)
    calls = [machine.ours(cell, a, b, operands, schedule)[1] for schedule in job.schedules]
    samples = machine.times(calls, 5)
    return {"times": [{"asked": asked, "schedule": call.describe(), "ms": statistics.median(x),
                       "fastest_ms": min(x)}
                      for asked, call, x in zip(job.schedules, calls, samples) if x]}


# ---- processes -----------------------------------------------------------------------------------


def work(pipe, device: str, lock: str, draw: dict) -> None:
    """Answers ("prepare", "measure" or "call", number) with (number, results); ("stop",) ends
    it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    machine = Machine(device, lock)
    jobs: dict[int, Job] = {}
    describe, first, second = STEPS[draw["what"]]
    pipe.send((None, {}))
    while (command := pipe.recv())[0] != "stop":
        verb, number = command
        try:
            if verb == "prepare":
                job = Job(drawn(draw, number))
                found = {**describe(job.cell), **first(machine, job)}
                jobs[number] = job
            elif verb == "call":
                cell = drawn(draw, number)
                found = {"first_call_alone_s": first_call(machine, cell, *machine.operands(cell))[2]}
            else:
                found = second(machine, jobs.pop(number))
            pipe.send((number, found))
        except Exception as error:
            pipe.send((number, {**describe(drawn(draw, number)), "failed": first_line(error)}))
            if "CUDA" in str(error) and "memory" not in str(error):
                break  # after a fault the context is gone
        if machine.cuda:
            machine.torch.cuda.empty_cache()


STEPS = {"gpu": (describe, prepare, measure),
         "schedules": (describe, prepare_schedules, measure_schedules),
         "conv": (convs.describe, convs.prepare, convs.measure)}


def drawn(draw: dict, number: int) -> Cell | convs.Conv:
    if draw["what"] == "conv":
        return convs.draw_conv(draw["seed"], number)
    if draw["tiny"]:
        return cells.draw_small_cell(draw["seed"], number)
    if draw["what"] == "gpu":
        return cells.draw_cell(draw["seed"], number)
    return cells.draw_neighbour(draw["seed"], number)


class Pool:
    """Processes that work, and what each is at."""

    def __init__(self, count: int, arguments: tuple) -> None:
        self.context = multiprocessing.get_context("spawn")
        self.arguments = arguments
        self.workers: dict = {}
        self.lost: list[int] = []
        self.started = 0
        for _ in range(count):
            self.start()

    def start(self) -> None:
        self.started += 1
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=work, args=(theirs, *self.arguments), daemon=True)
        process.start()
        theirs.close()
        self.workers[ours] = {"process": process, "number": None, "since": time.monotonic(),
                              "ready": False, "prepared": []}

    def idle(self) -> list:
        return [p for p, w in self.workers.items() if w["ready"] and w["number"] is None]

    def order(self, pipe, verb: str, number: int) -> None:
        worker = self.workers[pipe]
        worker["number"], worker["since"], worker["verb"] = number, time.monotonic(), verb
        with contextlib.suppress(OSError):
            pipe.send((verb, number))

    def answers(self, timeout: float) -> list[tuple[int, dict]]:
        """What has come from those that are through with something. Who died or hangs leaves."""
        found = []
        for pipe in wait_for_any(list(self.workers), timeout):
            worker = self.workers[pipe]
            try:
                number, results = pipe.recv()
            except (EOFError, OSError):
                self.drop(pipe)
                continue
            worker["ready"] = True
            if number is not None:
                if worker["verb"] == "prepare" and "failed" not in results:
                    worker["prepared"].append(number)
                elif worker["verb"] == "measure":
                    worker["prepared"].remove(number)
                worker["number"] = None
                found.append((number, results))
        for pipe, worker in list(self.workers.items()):
            if worker["number"] is not None and time.monotonic() - worker["since"] > COMMAND_LIMIT:
                self.drop(pipe)
        return found

    def drop(self, pipe) -> None:
        worker = self.workers.pop(pipe)
        under_way = [] if worker["number"] is None else [worker["number"]]
        self.lost += worker["prepared"] + under_way
        worker["process"].kill()
        pipe.close()

    def stop(self) -> None:
        for pipe in list(self.workers):
            with contextlib.suppress(OSError):
                pipe.send(("stop",))
        for worker in self.workers.values():
            worker["process"].join(2)
            worker["process"].kill()


def run(options: argparse.Namespace) -> list[dict]:
    """All that fits into the time, as rows; they are in cells.jsonl as well."""
    begin = time.monotonic()
    spent = lambda: time.monotonic() - begin  # noqa: E731
    folder = tempfile.mkdtemp(prefix="shapes-")
    os.environ.setdefault("POSTLUDE_CACHE_DIR", folder + "/postlude")
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=folder + "/inductor", OMP_NUM_THREADS="1",
                      TRITON_CACHE_DIR=folder + "/triton", TORCHINDUCTOR_COMPILE_THREADS="1",
                      TORCHINDUCTOR_FX_GRAPH_CACHE="0",
                      CUDA_CACHE_DISABLE="1", TORCH_LOGS="-all")
    draw = {"seed": options.seed, "tiny": options.tiny, "what": options.what}
    device = "cpu" if options.tiny else "cuda"
    pool = Pool(options.workers, (device, folder + "/lock", draw))
    rows: dict[int, dict] = {}
    log = open(options.out / "cells.jsonl", "w", encoding="utf-8")

    def take(timeout: float, pool: Pool = pool) -> None:
        for number, results in pool.answers(timeout):
            rows.setdefault(number, {}).update(results)
            log.write(json.dumps(rows[number]) + "\n")
            log.flush()

    def say(what: str) -> None:
        print(f"{spent():4.0f} s  {what}", flush=True)

    # A cell takes about so many seconds to be timed; they must be left.
    each, reserve = {"gpu": (0.25, 50), "schedules": (0.6, 25), "conv": (0.3, 10)}[options.what]
    told, number = 0.0, 0
    while number < options.cells and spent() + each * len(rows) + reserve < options.seconds:
        for pipe in pool.idle():
            if number < options.cells:
                pool.order(pipe, "prepare", number)
                number += 1
        take(0.5)
        while len(pool.workers) < options.workers and pool.started < 3 * options.workers:
            pool.start()
        if not pool.workers:
            raise SystemExit("no process lives; what they said is above")
        if spent() - told > 20:
            told = spent()
            say(f"prepared {len(rows)} cells, {sum('failed' in r for r in rows.values())} failed")
    # What is under way may end; whoever does not would run beside what is timed.
    ends = spent() + 30
    while any(w["number"] is not None for w in pool.workers.values()) and spent() < ends:
        take(0.5)
    for pipe, worker in list(pool.workers.items()):
        if worker["number"] is not None or not worker["ready"]:
            pool.drop(pipe)
    say(f"prepared {len(rows)} cells of {number}; timing")
    for pipe in list(pool.workers):
        for prepared in list(pool.workers[pipe]["prepared"]):
            if spent() > options.seconds or pipe not in pool.workers:
                break
            pool.order(pipe, "measure", prepared)
            while pipe in pool.workers and pool.workers[pipe]["number"] is not None:
                take(1)
    pool.stop()
    if options.what == "gpu":
        os.environ["POSTLUDE_CACHE_DIR"] = folder + "/alone"
        alone = Pool(1, pool.arguments)
        timed = sorted((n for n, r in rows.items() if "ours_ms" in r),
                       key=lambda n: rows[n]["first_call_s"])
        slow = timed[-ALONE:]

        def is_known() -> bool:
            """Whether more than a hundredth took longer than any that is left can have."""
            found = [rows[n].get("first_call_alone_s", 0.0) for n in timed]
            return sum(s >= rows[slow[-1]]["first_call_s"] for s in found) > len(timed) // 100 + 1

        while alone.workers and (not alone.idle() or slow and not is_known()):
            for pipe in alone.idle():
                alone.order(pipe, "call", slow.pop())
            take(1, alone)
        alone.stop()
    say(f"timed {sum('ours_ms' in r or 'times' in r for r in rows.values())} cells, "
        f"lost {len(pool.lost)}")
    return list(rows.values())


def versions() -> dict:
    import torch

    return {"device": torch.cuda.get_device_name() if torch.cuda.is_available() else
            platform.processor() or "cpu", "commit": cells.commit(),
            "versions": f"torch {torch.__version__}, CUDA {torch.version.cuda}, "
                        f"{os.cpu_count()} cores"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("seed", type=int, nargs="?")
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--cells", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    for what in ("schedules", "conv"):
        parser.add_argument(f"--{what}", dest="what", action="store_const", const=what,
                            default="gpu")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    fresh = options.seed is None
    options.seed = cells.fresh_seed() if fresh else options.seed
    before = cells.used(options.seed)
    print(f"seed {options.seed}" + (f", used on {before['date']}: no claim" if before else ""))
    rows = run(options)
    what = {"seed": options.seed, "claim": before is None and not options.tiny, **versions()}
    if not options.tiny:
        cells.record(options.seed, {"for": options.what, "commit": what["commit"]},
                     options.out / cells.SEEDS.name)
    if options.what == "conv":
        return report.write(what, rows, options.out, "h200_convs", "cuDNN", "")
    return report.write(what, rows, options.out, {"gpu": "h200_shapes",
                                                  "schedules": "shapes_schedules"}[options.what])


if __name__ == "__main__":
    sys.exit(main())
