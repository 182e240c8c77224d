"""./dev gpu conv: convolutions on one GPU in bf16, channels_last, ours beside cuDNN's plain kernel (torch, benchmark=True) and
torch.compile.

Contenders of a cell take turns in one process; before each run L2 is flushed and a wait on the device hides the host's time; a
time is the median of 15. Values are checked against torch's in f32. FILE: {"versions", "rows": [{"direction", "layer", "batch",
"what", "who", "ms", "plain_ms", "error"}]}; plain_ms is cuDNN's plain kernel in the same turns.

--prepare I/N compiles every N-th of torch.compile's programs from the I-th and times nothing: its cache on disk has them then.
--only TEXT (repeatable) takes the layers whose names have it, --batch N (repeatable) these batches, --direction one of fprop,
dgrad, wgrad (repeatable). --no-compile leaves torch.compile out; --check compares values and
times nothing, --no-values the other way.
"""
from __future__ import annotations

import argparse
import json
import math
import statistics
from typing import NamedTuple

import torch
import torch.nn.functional as F

import postlude as post

ROUNDS, WARM = 15, 3
WAIT_CYCLES = 1_500_000  # on the device, 0.8 ms: what Python takes to launch
FLUSHED = 256 << 20


class Layer(NamedTuple):
    name: str
    size: int
    channels: int
    filters: int
    window: int
    stride: int = 1
    batch: int | None = None  # its own, in place of 32 and 128
    groups: int = 1

    @property
    def padding(self) -> int:
        return self.window // 2

    @property
    def options(self) -> dict:
        return dict(stride=self.stride, padding=self.padding, **({"groups": self.groups} if self.groups > 1 else {}))


LAYERS = [
    Layer("3x3 64 at 56", 56, 64, 64, 3), Layer("3x3 128 at 28", 28, 128, 128, 3), Layer("3x3 256 at 14", 14, 256, 256, 3),
    Layer("3x3 512 at 7", 7, 512, 512, 3), Layer("3x3 128 at 56 by 2", 56, 128, 128, 3, 2), Layer("1x1 64 to 256 at 56", 56, 64, 256, 1),
    Layer("1x1 256 to 512 at 56 by 2", 56, 256, 512, 1, 2), Layer("1x1 512 to 128 at 28", 28, 512, 128, 1),
    Layer("1x1 256 to 1024 at 14", 14, 256, 1024, 1), Layer("7x7 8 to 64 at 224 by 2", 224, 8, 64, 7, 2),
    Layer("7x7 3 to 64 at 224 by 2", 224, 3, 64, 7, 2),
    Layer("3x3 640 at 64", 64, 640, 640, 3, batch=8), Layer("3x3 1280 at 32", 32, 1280, 1280, 3, batch=8),
    Layer("3x3 512 at 28", 28, 512, 512, 3, batch=64),
    Layer("7x7 depthwise 96 at 56", 56, 96, 96, 7, groups=96), Layer("7x7 depthwise 768 at 7", 7, 768, 768, 7, groups=768),
    Layer("3x3 depthwise 96 at 112 by 2", 112, 96, 96, 3, 2, groups=96),
    Layer("3x3 128 in 32 groups at 56", 56, 128, 128, 3, groups=32), Layer("3x3 1024 in 32 groups at 7", 7, 1024, 1024, 3, groups=32)]


@post.epilogue
def bias_res_relu(acc, bias: post.row, shortcut: post.tile):
    return post.relu(acc + bias + shortcut)


@post.epilogue
def bias_gelu(acc, bias: post.row):
    return post.gelu(acc + bias)


class Timer:
    def __init__(self) -> None:
        self.flush = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")

    def once(self, run) -> float:
        self.flush.zero_()
        torch.cuda._sleep(WAIT_CYCLES)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    def in_turns(self, contenders: dict) -> dict:
        for run in contenders.values():
            for _ in range(WARM):
                run()
        times: dict = {who: [] for who in contenders}
        for _ in range(ROUNDS):
            for who, run in contenders.items():
                times[who].append(self.once(run))
        return {who: statistics.median(all) for who, all in times.items()}


def error(ours: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference, in units of a bf16's last place at the mean magnitude."""
    return float((ours.float() - exact).abs().max() / (exact.abs().mean() + exact.abs().max() * 2 ** -8))


def with_epilogues(layer: Layer) -> dict:
    """What torch.compile is given: functions that share their code, of which it compiles eight before it gives up."""
    torch._dynamo.reset()
    how = layer.options

    def with_res(x, w, bias, res):
        return torch.relu(F.conv2d(x, w, bias, **how) + res)

    def with_gelu(x, w, bias):
        return F.gelu(F.conv2d(x, w, bias, **how), approximate="tanh")

    return {"bias_res_relu": with_res, "bias_gelu": with_gelu}


def prepare(layers: list, part: int, of: int) -> None:
    for number, (layer, batch, what) in enumerate((layer, batch, what) for layer, batch in layers for what in ("bias_res_relu", "bias_gelu")):
        if number % of != part:
            continue
        make = dict(device="cuda", dtype=torch.bfloat16)
        x = torch.zeros(batch, layer.channels, layer.size, layer.size, **make).to(memory_format=torch.channels_last)
        w = torch.zeros(layer.filters, layer.channels // layer.groups, layer.window, layer.window, **make).to(memory_format=torch.channels_last)
        bias = torch.zeros(layer.filters, **make)
        more = (torch.zeros_like(F.conv2d(x, w, **layer.options)),) if what == "bias_res_relu" else ()
        torch.compile(with_epilogues(layer)[what], dynamic=False)(x, w, bias, *more)


def fprop(layer: Layer, batch: int, compiled: bool, check: bool):
    make = dict(device="cuda", dtype=torch.bfloat16)
    x = torch.randn(batch, layer.channels, layer.size, layer.size, **make).to(memory_format=torch.channels_last)
    window = layer.channels // layer.groups * layer.window ** 2
    w = (torch.randn(layer.filters, layer.channels // layer.groups, layer.window, layer.window, **make) / math.sqrt(window)).to(
        memory_format=torch.channels_last)
    bias = torch.randn(layer.filters, **make)
    how = layer.options
    plain = lambda: F.conv2d(x, w, **how)
    res = torch.randn_like(plain())
    fused = {what: (program, (x, w, bias, res) if what == "bias_res_relu" else (x, w, bias)) for what, program in with_epilogues(layer).items()}
    ours = {"plain": lambda: post.conv2d(x, w, **how),
            "bias_res_relu": lambda: post.conv2d(x, w, epilogue=bias_res_relu, bias=bias, shortcut=res, **how),
            "bias_gelu": lambda: post.conv2d(x, w, epilogue=bias_gelu, bias=bias, **how)}
    runs = {("plain", "cudnn"): plain, **{(what, "ours"): run for what, run in ours.items()}}
    for what, (program, given) in fused.items():
        if compiled:
            fast = torch.compile(program, dynamic=False)
            runs[what, "torch.compile"] = lambda fast=fast, given=given: fast(*given)
    if not check:
        return runs, {}
    exact = F.conv2d(x.float(), w.float(), **how)
    errors = {"plain": error(ours["plain"](), exact),
              "bias_res_relu": error(ours["bias_res_relu"](), torch.relu(exact + bias.float()[:, None, None] + res.float())),
              "bias_gelu": error(ours["bias_gelu"](), F.gelu(exact + bias.float()[:, None, None], approximate="tanh"))}
    return runs, errors


def gradient(layer: Layer, batch: int, weights: bool, check: bool):
    make = dict(device="cuda", dtype=torch.bfloat16)
    x = torch.randn(batch, layer.channels, layer.size, layer.size, **make).to(memory_format=torch.channels_last)
    w = (torch.randn(layer.filters, layer.channels // layer.groups, layer.window, layer.window, **make)).to(memory_format=torch.channels_last)
    how = layer.options
    dy = torch.randn_like(F.conv2d(x, w, **how)) / math.sqrt(layer.filters)
    steps, zeros, one = ([n, n] for n in (layer.stride, layer.padding, 1))
    mask = [not weights, weights, False]
    whole = lambda dy, x, w: torch.ops.aten.convolution_backward(dy, x, w, None, steps, zeros, one, False, [0, 0], layer.groups, mask)
    if weights:
        ours = lambda: post.conv_wgrad(x, dy, w.shape[2:], **how)
    else:
        ours = lambda: post.conv_dgrad(dy, w, x.shape[2:], **how)
    runs = {("plain", "cudnn"): lambda: whole(dy, x, w), ("plain", "ours"): ours}
    if not check:
        return runs, {}
    exact = whole(dy.float(), x.float(), w.float())[int(weights)]
    return runs, {"plain": error(ours(), exact)}


def save(path: str | None, rows: list) -> None:
    if path:
        versions = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
        with open(path, "w") as file:
            json.dump({"versions": versions, "rows": rows}, file, indent=1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json")
    options.add_argument("--only", action="append", default=[])
    options.add_argument("--batch", action="append", type=int, default=[])
    options.add_argument("--direction", action="append", choices=("fprop", "dgrad", "wgrad"), default=[])
    options.add_argument("--no-compile", action="store_true")
    options.add_argument("--check", action="store_true")
    options.add_argument("--no-values", action="store_true")
    options.add_argument("--prepare", default="")
    given = options.parse_args()
    torch.backends.cudnn.benchmark = not given.check
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    layers = [(layer, batch) for layer in LAYERS if not given.only or any(text in layer.name for text in given.only)
              for batch in ([layer.batch] if layer.batch else given.batch or [32, 128])]
    if given.prepare:
        prepare(layers, *map(int, given.prepare.split("/")))
        return
    timer, rows = Timer(), []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    for direction in given.direction or ("fprop", "dgrad", "wgrad"):
        for layer, batch in layers:
            try:
                if direction == "fprop":
                    runs, errors = fprop(layer, batch, not (given.no_compile or given.check), given.check or not given.no_values)
                else:
                    runs, errors = gradient(layer, batch, direction == "wgrad", given.check or not given.no_values)
                if given.check:
                    print(f"{direction} {layer.name} x {batch}: errors {errors}", flush=True)
                    continue
                times = timer.in_turns(runs)
            except post.Error as refusal:
                print(f"{direction} {layer.name} x {batch}: not timed: {refusal}", flush=True)
                continue
            plain = times["plain", "cudnn"]
            text = f"{direction} {layer.name} x {batch}: cuDNN {plain:.4f}"
            for (what, who), ms in times.items():
                rows.append({"direction": direction, "layer": layer.name, "batch": batch, "what": what, "who": who, "ms": ms, "plain_ms": plain,
                             "error": errors.get(what) if who == "ours" else None})
                if who != "cudnn":
                    text += f"; {what} {who} {ms:.4f} ({ms / plain:.2f})" + (f" error {errors[what]:.3f}" if who == "ours" and errors else "")
            print(text, flush=True)
            save(given.json, rows)  # also of a run that is cut short
    for direction in ("fprop", "dgrad", "wgrad"):
        for what in ("plain", "bias_res_relu", "bias_gelu"):
            ratios = [row["ms"] / row["plain_ms"] for row in rows if (row["direction"], row["what"], row["who"]) == (direction, what, "ours")]
            if ratios:
                print(f"{direction} {what}: {statistics.geometric_mean(ratios):.3f} of cuDNN's plain kernel in the geometric mean, worst {max(ratios):.2f}, {len(ratios)} cells")
    ours = {(row["layer"], row["batch"], row["what"]): row["ms"] for row in rows if row["direction"] == "fprop" and row["who"] == "ours"}
    ahead = [row["ms"] / ours[cell] for row in rows if row["who"] == "torch.compile" and (cell := (row["layer"], row["batch"], row["what"])) in ours]
    if ahead:
        print(f"torch.compile takes {statistics.geometric_mean(ahead):.3f} of our time in the geometric mean, least {min(ahead):.2f}, {len(ahead)} cells")


if __name__ == "__main__":
    main()
