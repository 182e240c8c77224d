"""What people use today for the suite's epilogues, timed on this GPU in turns with torch.mm: torch's own operators, torch.compile
in its default mode and with max-autotune, cuBLASLt's epilogues, torch._scaled_mm.

Usage: peers.py --prepare I/N                 compiles every N-th epilogue from the I-th, so that --json finds it in the cache
       peers.py --json FILE [--autotune S]    times everything; max-autotune as far as S seconds go
--shape NAME and --only EPILOGUE (each repeatable) restrict both. --tiny runs one small shape, on a CPU too: for trying this file.

A time is the median of 15 runs. Before each run a gigabyte is written, which empties L2 and gives the host time to launch.
FILE: {"versions", "rows": [{"epilogue", "shape", "peer", "ms", "plain_ms"}], "skipped": [...]}.
"""
import argparse
import json
import statistics
import time
import types
from typing import NamedTuple

import torch
import torch.nn.functional as F

SHAPES = {"square": (8192, 8192, 8192), "bert_ffn": (16384, 4096, 1024), "mid": (4096, 4096, 4096),
          "odd": (4095, 4099, 1021), "decode": (64, 4096, 4096), "narrow": (64, 1024, 8192)}
SMALL = ("bias_gelu", "bias_gelu_res_aux", "swiglu", "rmsnorm")
RUNS, WARM = 15, 3



class Operands(NamedTuple):
    a: torch.Tensor      # M x K
    b: torch.Tensor      # N x K
    bias: torch.Tensor   # N
    tile: torch.Tensor   # M x N
    label: torch.Tensor  # M, columns
    alpha: torch.Tensor
    beta: torch.Tensor
    a8: torch.Tensor | None  # as e4m3, with their scales
    b8: torch.Tensor | None
    sa: torch.Tensor | None
    sb: torch.Tensor | None


# Each epilogue as a torch program would have it; statistics are f32.


def plain(t):
    return t.a @ t.b.t()


def bias_relu(t):
    return torch.relu(F.linear(t.a, t.b, t.bias))


def bias_gelu(t):
    return F.gelu(F.linear(t.a, t.b, t.bias), approximate="tanh")


def axpby(t):
    return t.alpha * (t.a @ t.b.t()) + t.beta * t.tile


def bias_gelu_res_aux(t):
    z = F.linear(t.a, t.b, t.bias)
    return F.gelu(z, approximate="tanh") + t.tile, z


def dgelu_dbias(t):
    dz = torch.ops.aten.gelu_backward(t.a @ t.b.t(), t.tile, approximate="tanh")
    return dz, dz.sum(0, dtype=torch.float32)


def swiglu(t):
    gate, up = (t.a @ t.b.t()).chunk(2, -1)
    return F.silu(gate) * up


def bce(t):
    f = F.linear(t.a, t.b, t.bias).float()
    s = torch.clamp(torch.sigmoid(f), 0.001, 0.999)
    return -((t.tile - 1) * f + torch.log(s)).sum()


def rowmax(t):
    d = F.linear(t.a, t.b, t.bias)
    return d, d.abs().amax(1).float()


def rmsnorm(t):
    return F.rms_norm(t.a @ t.b.t() + t.tile, (t.b.shape[0],), t.bias, 1e-6)


def qk_norm_rope(t):
    heads = (t.a @ t.b.t()).unflatten(1, (-1, 128))
    a, b = (F.rms_norm(heads, (128,), None, 1e-6) * t.bias.unflatten(0, (-1, 128))).chunk(2, -1)
    cos, sin = (half.unflatten(1, (-1, 64)) for half in t.tile.chunk(2, -1))
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).flatten(1)


def fp8_groups(t):
    groups = F.gelu(F.linear(t.a, t.b, t.bias), approximate="tanh").float().unflatten(1, (-1, 128))
    scale = groups.abs().amax(2).clamp(min=1e-4) / 448
    return (groups / scale[..., None]).to(torch.float8_e4m3fn).flatten(1), scale


def softmax(t):
    return torch.softmax(t.a @ t.b.t(), -1)


def argmax(t):
    return torch.argmax(t.a @ t.b.t(), -1)


def xent(t):
    x = (t.a @ t.b.t()).float()
    return torch.logsumexp(x, 1) - x.gather(1, t.label[:, None])[:, 0]


COMPILED = {f.__name__: f for f in (plain, bias_relu, bias_gelu, axpby, bias_gelu_res_aux, dgelu_dbias, swiglu, bce, rowmax,
                                    rmsnorm, softmax, argmax, xent, qk_norm_rope, fp8_groups)}
# What torch calls directly, beside the functions above.
DIRECT = {
    "bias_relu": {"cublaslt": lambda t: torch._addmm_activation(t.bias, t.a, t.b.t(), use_gelu=False)},
    "bias_gelu": {"cublaslt": lambda t: torch._addmm_activation(t.bias, t.a, t.b.t(), use_gelu=True)},
    "axpby": {"addmm": lambda t: torch.addmm(t.tile, t.a, t.b.t(), beta=0.5, alpha=0.5)},
    "xent": {"cross_entropy": lambda t: F.cross_entropy(t.a @ t.b.t(), t.label, reduction="none")},
    # Ours promotes its partial sums every 512 of K; the first of these does every 128, the second never.
    "fp8_rowwise": {"scaled_mm": lambda t: torch._scaled_mm(t.a8, t.b8.t(), scale_a=t.sa, scale_b=t.sb, out_dtype=torch.bfloat16),
                    "scaled_mm_fast": lambda t: torch._scaled_mm(t.a8, t.b8.t(), scale_a=t.sa, scale_b=t.sb, out_dtype=torch.bfloat16,
                                                                 use_fast_accum=True)},
}
EPILOGUES = [*COMPILED, "fp8_rowwise"]


def measured(name, shape_name):
    """At the odd shape Inductor pads the operands, which makes it a peer of the plain product too."""
    few = {"odd": ("plain", "bias_gelu"), "decode": SMALL, "narrow": SMALL}
    return name in few.get(shape_name, ()) or (shape_name not in few and name != "plain")


def tensors(shape, device):
    m, n, k = shape
    draw = torch.Generator(device).manual_seed(1)

    def normal(*size):
        return torch.randn(size, generator=draw, device=device, dtype=torch.float32).to(torch.bfloat16)

    a, b = normal(m, k), normal(n, k) / k**0.5
    half = torch.tensor(0.5, device=device)
    label = torch.randint(0, n, (m,), generator=draw, device=device)
    fp8 = [a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn), torch.ones(m, 1, device=device), torch.ones(1, n, device=device)]
    return Operands(a, b, normal(n), normal(m, n), label, half, half, *(fp8 if device == "cuda" else [None] * 4))


def compiled(name, shape, mode):
    """The epilogue under torch.compile, with a code object of its own, so that no other shape's guards are tried first."""
    f = COMPILED[name]
    own = types.FunctionType(f.__code__.replace(co_name=f"{name}_{'x'.join(map(str, shape))}_{mode or 'default'}".replace("-", "_")), f.__globals__)
    return torch.compile(own, mode=mode, dynamic=False)


def first_run(call, t):
    call(t)
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def sampled(calls, t, cuda):
    """Medians in ms, one a call, all in turns."""
    times = [[] for _ in calls]
    flush = torch.empty(1 << 30, dtype=torch.int8, device="cuda") if cuda else None
    for run in range(WARM + RUNS):
        events = []
        for i, call in enumerate(calls):
            if cuda:
                flush.zero_()
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                call(t)
                end.record()
                events.append((begin, end))
            else:
                start = time.perf_counter()
                call(t)
                if run >= WARM:
                    times[i].append(1e3 * (time.perf_counter() - start))
        if cuda:
            torch.cuda.synchronize()
            if run >= WARM:
                for i, (begin, end) in enumerate(events):
                    times[i].append(begin.elapsed_time(end))
    return [statistics.median(column) for column in times]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prepare", default="")
    parser.add_argument("--json", default="")
    parser.add_argument("--autotune", type=float, default=0)
    parser.add_argument("--shape", action="append")
    parser.add_argument("--only", action="append")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    shapes = {"tiny": (64, 128, 32)} if options.tiny else {s: x for s, x in SHAPES.items() if not options.shape or s in options.shape}
    names = [name for name in EPILOGUES if not options.only or name in options.only]
    cuda = torch.cuda.is_available()
    if not cuda and not options.tiny:
        raise SystemExit("no CUDA device")
    device = "cuda" if cuda else "cpu"
    torch.set_grad_enabled(False)

    if options.prepare:
        index, count = map(int, options.prepare.split("/"))
        for shape_name, shape in shapes.items():
            t = tensors(shape, device)
            for name in names[index::count]:
                if name in COMPILED and measured(name, shape_name):
                    first_run(compiled(name, shape, None), t)
            del t
        return

    rows, skipped = [], []
    tuning_ends = time.monotonic() + options.autotune

    # A product's templates are tuned once a shape and kept; what an epilogue adds is then little. Short products first.
    for shape_name in sorted(shapes, key=lambda s: shapes[s][0] * shapes[s][1] * shapes[s][2]):
        shape = shapes[shape_name]
        t = tensors(shape, device)
        calls = [("plain", "torch.mm", plain)]
        for name in filter(lambda name: measured(name, shape_name), names):
            candidates = [(who, call) for who, call in DIRECT.get(name, {}).items()]
            if name in COMPILED:
                candidates += [("eager", COMPILED[name])] if name != "plain" else []
                candidates += [("inductor", compiled(name, shape, None))]
                if time.monotonic() < tuning_ends:
                    candidates.append(("autotune", compiled(name, shape, "max-autotune-no-cudagraphs")))
                else:
                    skipped.append(f"autotune {name} {shape_name}")
            for who, call in candidates:
                start = time.monotonic()
                try:
                    first_run(call, t)
                    calls.append((name, who, call))
                except Exception as error:  # a peer that does not run here is no failure of ours
                    skipped.append(f"{who} {name} {shape_name}: {type(error).__name__} {str(error).splitlines()[0][:160]}")
                if time.monotonic() - start > 5:
                    print(f"{who} {name} {shape_name} took {time.monotonic() - start:.0f} s to compile", flush=True)
        medians = sampled([call for _, _, call in calls], t, cuda)
        for (name, who, _), ms in zip(calls[1:], medians[1:]):
            rows.append({"epilogue": name, "shape": shape_name, "peer": who, "ms": ms, "plain_ms": medians[0]})
        print(f"{shape_name}: torch.mm {medians[0]:.4f} ms; " +
              ", ".join(f"{name} {who} {ms / medians[0]:.3f}" for (name, who, _), ms in zip(calls[1:], medians[1:])), flush=True)
        del t
    for line in skipped:
        print("skipped:", line)
    versions = f"torch {torch.__version__}, CUDA {torch.version.cuda}"
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump({"versions": versions, "rows": rows, "skipped": skipped}, file, indent=1)


if __name__ == "__main__":
    main()
