"""Random convolutions, as networks have them: `./dev gpu shapes [SEED] --conv`. Ours beside what
torch runs (cuDNN, benchmark=True), plain, bf16, channels_last, forward and both gradients."""
from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace

from cells import _between

ROUNDS = 11
MOST_BYTES, MOST_OPERATIONS = 4e8, 4e11
DENSE = ((1, 1),) * 8 + ((3, 3),) * 9 + ((5, 5), (7, 7), (1, 7), (7, 1), (3, 1), (2, 2), (4, 4))
DEPTHWISE = ((3, 3),) * 4 + ((5, 5),) * 3 + ((7, 7),) * 2 + ((1, 5), (4, 4))
PLAIN = SimpleNamespace(outputs=[SimpleNamespace(index_of=None, dtype="own")])


@dataclass
class Conv:
    number: int
    direction: str  # fprop, dgrad, wgrad
    images: int
    size: tuple[int, int]
    channels: int
    filters: int
    window: tuple[int, int]
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    groups: int = 1
    dtype: str = "bf16"
    epilogue = PLAIN  # what Machine.error() looks at

    @property
    def options(self) -> dict:
        return {"stride": self.stride, "padding": self.padding, "groups": self.groups}

    @property
    def output(self) -> tuple[int, int]:
        return tuple((size + 2 * around - taps) // self.stride + 1
                     for size, around, taps in zip(self.size, self.padding, self.window))

    @property
    def operations(self) -> float:
        taps = math.prod(self.window) * self.channels // self.groups
        return 2.0 * self.images * math.prod(self.output) * self.filters * taps

    @property
    def k(self) -> int:
        """How many products an element is the sum of."""
        return {"fprop": math.prod(self.window) * self.channels // self.groups,
                "dgrad": math.prod(self.window) * self.filters // self.groups,
                "wgrad": self.images * math.prod(self.output)}[self.direction]

    def bytes(self) -> float:
        """What must move: both operands and the result once."""
        pixels = self.channels * math.prod(self.size), self.filters * math.prod(self.output)
        filters = self.filters * self.channels // self.groups * math.prod(self.window)
        return 2.0 * (self.images * sum(pixels) + filters)

    def shape(self) -> str:
        """As `postlude run --conv` takes it."""
        x, w = (*self.size, self.channels), (self.filters, *self.window)
        return "{}:{}:s{},p{}".format("x".join(map(str, (self.images, *x))),
                                      "x".join(map(str, w)), self.stride,
                                      "x".join(map(str, self.padding))) + (
            f",g{self.groups}" if self.groups > 1 else "")


def _channels(rng: Random) -> int:
    unit = rng.choice((1, 8, 8, 16, 32, 32, 64, 64, 64))
    return -(-_between(rng, 12, 2048) // unit) * unit


def draw_conv(seed: int, number: int) -> Conv:
    """Convolution `number` of a seed: the same, whichever others are drawn."""
    rng = Random(f"{seed} {number} conv")
    while True:
        direction = rng.choice(("fprop", "fprop", "dgrad", "wgrad"))
        images = rng.choice((1, 1, 2, 4, 8, 16, 32, 64, 128, 256))
        high = _between(rng, 5, 300)
        size = high, high if rng.random() < 0.8 else _between(rng, 5, 300)
        depthwise = rng.random() < 0.3
        channels = _channels(rng)
        filters = channels if depthwise or rng.random() < 0.3 else _channels(rng)
        window = rng.choice(DEPTHWISE if depthwise else DENSE)
        stride = rng.choice((1, 1, 1, 2))
        padding = tuple(taps // 2 for taps in window) if rng.random() < 0.8 else (0, 0)
        if window in ((2, 2), (4, 4)) and rng.random() < 0.8:  # patches
            stride, padding = window[0], (0, 0)
        if not depthwise and rng.random() < 0.06:  # of an image's colours
            channels, size = rng.choice((1, 3, 4)), (rng.choice((32, 96, 224, 256)),) * 2
        conv = Conv(number, direction, images, size, channels, filters, window, stride, padding,
                    channels if depthwise else 1)
        if min(conv.output) > 0 and conv.bytes() <= MOST_BYTES and \
                1e7 <= conv.operations <= MOST_OPERATIONS:
            return conv


def classes_of(conv: Conv) -> list[str]:
    kind = "depthwise" if conv.groups > 1 else "1 x 1" if conv.window == (1, 1) else \
        "patches" if conv.window == (conv.stride,) * 2 else "windows"
    found = [conv.direction, f"{conv.direction}, {kind}"]
    if conv.stride > 1:
        found.append(f"{conv.direction}, {kind}, strided")
    if conv.channels % 8 or conv.filters % 8:
        found.append("channels or filters no multiple of 8")
    if conv.images == 1:
        found.append("one image")
    found.append("floor " + ("below 8 us" if floor_ms(conv) < 8e-3 else "8 to 20 us"
                             if floor_ms(conv) < 20e-3 else "above 20 us"))
    return found


def floor_ms(conv: Conv) -> float:
    rate = 58e12 if conv.groups > 1 else 790e12
    return 1e3 * max(conv.operations / rate, conv.bytes() / 4.1e12) + 4.5e-3


def describe(conv: Conv) -> dict:
    return {"number": conv.number, "epilogue": conv.direction, "shape": conv.shape(),
            "classes": classes_of(conv), "dtype": conv.dtype, "operations": conv.operations,
            "bytes": conv.bytes(), "floor_ms": floor_ms(conv)}


class Operands:
    """x, w and dy of a convolution, of which a direction makes one from the others."""

    def __init__(self, machine, conv: Conv) -> None:
        self.machine, self.conv, torch = machine, conv, machine.torch
        draw = torch.Generator(machine.device).manual_seed(conv.number)

        def normal(*shape):
            made = torch.randn(shape, generator=draw, device=machine.device)
            return made.to(torch.bfloat16).to(memory_format=torch.channels_last)

        self.x = normal(conv.images, conv.channels, *conv.size)
        self.w = normal(conv.filters, conv.channels // conv.groups, *conv.window) / conv.k ** 0.5
        self.dy = None
        if conv.direction != "fprop":
            self.dy = normal(conv.images, conv.filters, *conv.output)

    def ours(self):
        post, options, direction = self.machine.post, self.conv.options, self.conv.direction
        loop = {"fprop": lambda: post.Conv(**options),
                "dgrad": lambda: post.ConvDgrad(self.conv.size, **options),
                "wgrad": lambda: post.ConvWgrad(self.conv.window, **options)}[direction]()
        inputs = {"fprop": (self.x, self.w), "dgrad": (self.dy, self.w),
                  "wgrad": (self.x, self.dy)}[direction]
        return loop.plan(*inputs).bind(*inputs)

    def peer(self, f32: bool = False):
        torch, conv = self.machine.torch, self.conv
        x, w, dy = (t if t is None or not f32 else t.float() for t in (self.x, self.w, self.dy))
        if conv.direction == "fprop":
            return lambda: torch.nn.functional.conv2d(x, w, **conv.options)
        mask = [conv.direction == "dgrad", conv.direction == "wgrad", False]
        return lambda: torch.ops.aten.convolution_backward(
            dy, x, w, None, [conv.stride] * 2, list(conv.padding), [1, 1], False, [0, 0],
            conv.groups, mask)[mask.index(True)]


def prepare(machine, job) -> dict:
    """Compiles ours and checks it against torch's in f32. cuDNN's choice waits for the timing."""
    conv, torch = job.cell, machine.torch
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = False
    operands = Operands(machine, conv)
    machine.synchronize()
    start = time.perf_counter()
    call = operands.ours()
    result = call()
    found = {"first_call_s": time.perf_counter() - start, "schedule": call.describe()}
    exact = operands.peer(f32=True)().double()
    # What tensor cores drop of long sums (Machine.cut), here of sums of the mean magnitude.
    lost = conv.k / 16 * 2.0 ** -23 * float(exact.abs().mean())
    found["error_over_bound"] = machine.error(conv, [result], [exact], [lost])
    return found


def measure(machine, job) -> dict:
    operands = Operands(machine, job.cell)
    ours, peer = operands.ours(), operands.peer()
    machine.torch.backends.cudnn.benchmark = True
    peer()  # cuDNN chooses
    samples = machine.times([ours, peer], ROUNDS)
    machine.torch.backends.cudnn.benchmark = False
    ms = [statistics.median(x) if x else None for x in samples]
    return {"ours_ms": ms[0], "best_peer": "cudnn", "best_peer_ms": ms[1],
            "runs": min(map(len, samples)), "schedule": ours.describe()}
