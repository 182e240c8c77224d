"""Random epilogues, composed of the pieces that models have.

Every epilogue is written once, as statements of the epilogue language. The language reads them as
they are; torch runs the same text with its own functions under the language's names (torch_form);
loops.py makes a loop in C++ of them. What torch has as one function (softmax, layer_norm, dropout)
is a definition here, so that its compiler sees what its users write.
"""
from __future__ import annotations

import linecache
import math
from dataclasses import dataclass, field
from random import Random

# The language's definitions of what is one function to torch.
DEFINITIONS = {
    "softmax": "def softmax(x):\n    e = exp(x - max(x, axis=1))\n    return e / sum(e, axis=1)\n",
    "log_softmax": "def log_softmax(x):\n    return x - logsumexp(x, axis=1)\n",
    "l2_norm": "def l2_norm(x):\n    return x * rsqrt(sum(x * x, axis=1) + 1e-12)\n",
    "rms_norm": "def rms_norm(x, gamma):\n"
                "    return x * rsqrt(mean(x * x, axis=1) + 1e-6) * gamma\n",
    "layer_norm": "def layer_norm(x, gamma, beta):\n    centred = x - mean(x, axis=1)\n"
                  "    scale = rsqrt(mean(centred * centred, axis=1) + 1e-5)\n"
                  "    return centred * scale * gamma + beta\n",
    "dropout": "def dropout(x):\n    return where(random(seed=1) < 0.9, x / 0.9, 0)\n",
    "gelu_backward": "def gelu_backward(g, z):\n    return g * dgelu(z)\n",
    "silu_backward": "def silu_backward(g, z):\n    return g * dsilu(z)\n",
    "relu_backward": "def relu_backward(g, z):\n    return g * drelu(z)\n",
    "relu_squared": "def relu_squared(x):\n    r = relu(x)\n    return r * r\n",
    "soft_cap": "def soft_cap(x):\n    return 30 * tanh(x / 30)\n",
    "cross_entropy": "def cross_entropy(x, label):\n"
                     "    hit = sum(where(n_index() == label, x, 0), axis=1)\n"
                     "    return logsumexp(x, axis=1) - hit\n",
    "bce_with_logits": "def bce_with_logits(x, target):\n"
                       "    return sum(max(x, 0) - x * target + log1p(exp(-abs(x))))\n",
    "two_largest": "def two_largest(x):\n"
                   "    first, second = reduce((x, where(x == x, -inf, -inf)),\n"
                   "        combine=lambda a, b, c, d: (max(a, c), max(min(a, c), max(b, d))),\n"
                   "        identity=(-inf, -inf), axis=1)\n    return first, second\n",
}

ACTIVATIONS = ("relu", "gelu", "gelu_erf", "silu", "sigmoid", "tanh", "mish", "softplus", "elu",
               "selu", "leaky_relu", "hardswish", "quick_gelu", "relu_squared", "hardsigmoid",
               "softsign", "logsigmoid", "relu6")
COMMON = ("gelu", "silu", "relu")


@dataclass(frozen=True)
class Operand:
    """A parameter. dtype `own`: that of A and B. values: normal, scale (positive, about 1), label,
    keep (bools, one in eight false) or unit (in [0, 1])."""

    name: str
    kind: str  # tile, row, col or scalar
    dtype: str = "own"
    values: str = "normal"
    halved: bool = False  # over N / 2 columns, behind a chunk


@dataclass(frozen=True)
class Output:
    """A result. index_of: it is the column of the largest element of this value."""

    name: str
    kind: str
    dtype: str
    halved: bool = False
    index_of: str = ""


@dataclass
class Epilogue:
    family: str
    pieces: list[str] = field(default_factory=list)
    operands: list[Operand] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # "name = expression"
    outputs: list[Output] = field(default_factory=list)
    needs_even: int = 1  # N is a multiple

    @property
    def name(self) -> str:
        return "+".join(self.pieces) or "plain"

    def operand(self, name: str, kind: str, dtype: str = "own", values: str = "normal",
                halved: bool = False) -> str:
        taken = sum(o.name.rstrip("0123456789") == name for o in self.operands)
        unique = name + (str(taken + 1) if taken else "")
        self.operands.append(Operand(unique, kind, dtype, values, halved))
        return unique

    def let(self, expression: str, name: str = "") -> str:
        name = name or f"x{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def output(self, name: str, value: str, kind: str = "tile", dtype: str = "own",
               halved: bool = False, index_of: str = "") -> None:
        self.let(value, name)
        self.outputs.append(Output(name, kind, dtype, halved, index_of))

    def definitions(self) -> list[str]:
        text = "\n".join(self.lines)
        return [body for name, body in DEFINITIONS.items() if name + "(" in text]

    def language(self, own: str) -> str:
        """The epilogue in the epilogue language, for A and B of dtype `own`."""
        dtype = lambda x: own if x == "own" else x  # noqa: E731
        parameters = "".join(f", {o.name}: {o.kind}[{dtype(o.dtype)}]" for o in self.operands)
        declared = {o.name: dtype(o.dtype) for o in self.outputs}
        body = []
        for line in self.lines:
            name, _, expression = line.partition(" = ")
            body.append(f"{name}: {declared[name]} = {expression}" if name in declared else line)
        result = ", ".join(o.name for o in self.outputs)
        return "".join(self.definitions()) + f"def epilogue(acc{parameters}):\n" + \
            "".join(f"    {line}\n" for line in body) + f"    return {result}\n"


# ---- what is drawn -------------------------------------------------------------------------------


def _front(e: Epilogue, rng: Random, x: str = "acc", rate: float = 1.0) -> str:
    """What stands before an activation: scales, a bias, a soft cap."""
    def some(probability: float, piece: str) -> bool:
        taken = rng.random() < probability * rate
        if taken:
            e.pieces.append(piece)
        return taken

    if some(0.08, "scale"):
        x = e.let(f"{x} * {rng.choice(('0.125', '0.5', '0.088388'))}")
    elif some(0.08, "alpha"):
        x = e.let(f"{x} * {e.operand('alpha', 'scalar', 'f32', 'scale')}")
    elif some(0.10, "scales"):
        rows = e.operand("sa", "col", "f32", "scale")
        columns = e.operand("sb", "row", "f32", "scale")
        x = e.let(f"{x} * {rows} * {columns}")
    if some(0.50, "bias"):
        x = e.let(f"{x} + {e.operand('bias', 'row', rng.choice(('own', 'own', 'f32')))}")
    if some(0.07, "soft_cap"):
        x = e.let(f"soft_cap({x})")
    return x


def _activation(e: Epilogue, rng: Random, x: str) -> str:
    name = rng.choice(COMMON if rng.random() < 0.5 else ACTIVATIONS)
    e.pieces.append(name)
    return e.let(f"{name}({x})")


def _masked(e: Epilogue, rng: Random, x: str, fill: str) -> str:
    kind = rng.choice(("causal", "padding", "mask"))
    e.pieces.append(kind)
    if kind == "causal":
        return e.let(f"where(n_index() <= m_index(), {x}, {fill})")
    shape = "row" if kind == "padding" else "tile"
    return e.let(f"where({e.operand('keep', shape, 'bool', 'keep')}, {x}, {fill})")


def _gate(e: Epilogue, rng: Random) -> str:
    """A gate by the halves of the product."""
    act = rng.choice(("silu", "gelu", "relu", "sigmoid"))
    e.pieces.append(f"{act}_gate")
    e.needs_even = max(e.needs_even, 2)
    x = f"acc + {e.operand('bias', 'row')}" if rng.random() < 0.3 else "acc"
    e.lines.append(f"gate, up = chunk({x}, 2)")
    return e.let(f"{act}(gate) * up")


def _residual(e: Epilogue, rng: Random, x: str, halved: bool = False) -> str:
    e.pieces.append("residual")
    tile = e.operand("residual", "tile", halved=halved)
    return e.let(f"{x} * 0.5 + {tile}" if rng.random() < 0.15 else f"{x} + {tile}")


def _elementwise(e: Epilogue, rng: Random) -> None:
    if rng.random() < 0.2:
        x, halved = _gate(e, rng), True
    else:
        x, halved = _front(e, rng), False
        if rng.random() < 0.12 and x != "acc":
            e.pieces.append("aux")
            e.output("z", x)
        if rng.random() < 0.75:
            x = _activation(e, rng, x)
        if rng.random() < 0.12:
            e.pieces.append("product")
            x = e.let(f"{x} * {e.operand('up', 'tile')}")
        if rng.random() < 0.12:
            x = _masked(e, rng, x, "0")
    if rng.random() < 0.4 or x == "acc":
        x = _residual(e, rng, x, halved)
    e.output("D", x, halved=halved)


def _rows(e: Epilogue, rng: Random) -> None:
    kind = rng.choice(("softmax", "softmax", "log_softmax", "l2_norm", "rms_norm", "rms_norm"))
    x = _front(e, rng, rate=0.7)
    if "soft" in kind:
        if rng.random() < 0.35:
            x = _masked(e, rng, x, "-10000")
        e.pieces.append(kind)
        return e.output("D", f"{kind}({x})")
    if rng.random() < 0.5:
        x = _residual(e, rng, x)
        if rng.random() < 0.4:
            e.pieces.append("aux")
            e.output("h", x)
    e.pieces.append(kind)
    gamma = f", {e.operand('gamma', 'row')}" if kind == "rms_norm" else ""
    e.output("D", f"{kind}({x}{gamma})")


def _layer_norm(e: Epilogue, rng: Random) -> None:
    x = _front(e, rng, rate=0.8)
    if rng.random() < 0.7:
        x = _residual(e, rng, x)
    e.pieces.append("layer_norm")
    e.output("D", f"layer_norm({x}, {e.operand('gamma', 'row')}, {e.operand('beta', 'row')})")


def _quantised(e: Epilogue, rng: Random, n: int) -> None:
    x = _front(e, rng)
    if rng.random() < 0.4:
        x = _activation(e, rng, x)
    dtype, top = rng.choice((("s8", 127), ("e4m3", 448)))
    group = rng.choice((32, 64, 128, 256))
    kinds = ["row", "row", "column"] + (["group", "group"] if n % group == 0 else [])
    kind = rng.choice(kinds)
    e.pieces.append(f"{dtype}_by_{kind}")
    if kind == "group":
        e.needs_even = group
        amax = f"max(max(abs({x}), axis=1, group={group}), 0.0001)"
        e.output("scale", f"{amax} / {top}", "group", "f32")
        return e.output("D", f"{x} / repeat(scale, {group})", dtype=dtype)
    axis, shape = (1, "col") if kind == "row" else (0, "row")
    e.output("scale", f"max(max(abs({x}), axis={axis}), 0.0001) / {top}", shape, "f32")
    e.output("D", f"{x} / scale", dtype=dtype)


def _dropout(e: Epilogue, rng: Random) -> None:
    x = _front(e, rng)
    if rng.random() < 0.5:
        x = _activation(e, rng, x)
    e.pieces.append("dropout")
    x = e.let(f"dropout({x})")
    if rng.random() < 0.7:
        x = _residual(e, rng, x)
    e.output("D", x)


def _columns(e: Epilogue, rng: Random) -> None:
    """What a backward pass or a batch norm sums over rows."""
    if rng.random() < 0.4:
        act = rng.choice(COMMON)
        e.pieces.append(f"{act}_backward")
        x = e.let(f"{act}_backward(acc, {e.operand('z', 'tile')})")
    else:
        x = _front(e, rng)
    if rng.random() < 0.8:
        e.output("D", x)
    kind = rng.choice(("sum", "sum", "moments", "amax", "product"))
    e.pieces.append(f"column_{kind}")
    if kind == "moments":
        e.output("mu", f"mean({x}, axis=0)", "row", "f32")
        e.output("v", f"var({x}, axis=0)", "row", "f32")
    elif kind == "amax":
        e.output("amax", f"max(abs({x}), axis=0)", "row", "f32")
    elif kind == "product":
        tile = e.operand("xhat", "tile")
        e.output("dgamma", f"sum({x} * {tile}, axis=0)", "row", "f32")
        e.output("dbeta", f"sum({x}, axis=0)", "row", "f32")
    else:
        e.output("s", f"sum({x}, axis=0)", "row", "f32")


def _row_statistics(e: Epilogue, rng: Random) -> None:
    x = _front(e, rng)
    if rng.random() < 0.4:
        x = _activation(e, rng, x)
    e.output("D", x)
    kind = rng.choice(("amax", "squares", "moments", "logsumexp", "total"))
    e.pieces.append(f"row_{kind}")
    if kind == "moments":
        e.output("mu", f"mean({x}, axis=1)", "col", "f32")
        e.output("v", f"var({x}, axis=1)", "col", "f32")
    elif kind == "total":
        e.output("s", f"sum({x} * {x})", "scalar", "f32")
    else:
        e.output("s", {"amax": f"max(abs({x}), axis=1)", "squares": f"sum({x} * {x}, axis=1)",
                       "logsumexp": f"logsumexp({x}, axis=1)"}[kind], "col", "f32")


def _losses(e: Epilogue, rng: Random) -> None:
    x = _front(e, rng, rate=0.6)
    stored = rng.random() < 0.4
    if stored:
        e.output("D", x)
    kind = rng.choice(("cross_entropy", "cross_entropy", "bce", "squared_error", "argmax", "argmax",
                       "two_largest"))
    e.pieces.append(kind)
    if kind == "cross_entropy":
        label = e.operand("label", "col", "i64", "label")
        e.output("loss", f"cross_entropy({x}, {label})", "col", "f32")
    elif kind == "bce":
        truth = e.operand("truth", "tile", values="unit")
        e.output("loss", f"bce_with_logits({x}, {truth})", "scalar", "f32")
    elif kind == "squared_error":
        difference = e.let(f"{x} - {e.operand('truth', 'tile')}")
        e.output("loss", f"sum({difference} * {difference})", "scalar", "f32")
    elif kind == "argmax":
        e.output("index", f"argmax({x}, axis=1)", "col", "i64", index_of=x)
        if rng.random() < 0.5:
            e.output("top", f"max({x}, axis=1)", "col", "f32")
    else:
        e.lines.append(f"first, second = two_largest({x})")
        e.output("best", "first", "col", "f32")
        e.output("next", "second", "col", "f32")


FAMILIES = {  # and how many of a hundred
    "plain": 6, "elementwise": 34, "rows": 16, "layer_norm": 7, "quantised": 11, "dropout": 6,
    "columns": 10, "row_statistics": 3, "losses": 7}


def draw_epilogue(rng: Random, n: int, families: dict[str, int] | None = None) -> Epilogue:
    """An epilogue for outputs of about n columns; the caller makes N a multiple of needs_even."""
    weights = families or FAMILIES
    family = rng.choices(list(weights), list(weights.values()))[0]
    e = Epilogue(family)
    if family == "plain":
        e.output("D", "acc")
    elif family == "quantised":
        _quantised(e, rng, n)
    else:
        {"elementwise": _elementwise, "rows": _rows, "layer_norm": _layer_norm, "dropout": _dropout,
         "columns": _columns, "row_statistics": _row_statistics, "losses": _losses}[family](e, rng)
    return e


# ---- torch ---------------------------------------------------------------------------------------


def philox(torch, seed: int, shape: tuple[int, int, int], device) -> object:
    """random(seed) as docs/language.md defines it: uniform, (batch, m, n), some rows at a time."""
    batch, m, n = shape
    mask = 0xFFFFFFFF

    def product(constant: int, x):
        """The high and low words of an unsigned product, by halves of 16 bits."""
        low, high = constant * (x & 0xFFFF), constant * (x >> 16)
        total = low + ((high & 0xFFFF) << 16)
        return (high >> 16) + (total >> 32) & mask, total & mask

    def rows(b: int, i, j):
        # The counter of each pair of columns and of rows eight apart.
        counter = [(j // 2).expand(len(i), n), ((i // 16) * 8 + i % 8).expand(len(i), n),
                   torch.full((), b, device=device), torch.full((), 0, device=device)]
        key = [seed & mask, seed >> 32]
        for _ in range(10):
            high0, low0 = product(0xD2511F53, counter[0])
            high1, low1 = product(0xCD9E8D57, counter[2])
            counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
            key = [key[0] + 0x9E3779B9 & mask, key[1] + 0xBB67AE85 & mask]
        words = torch.where(i // 8 % 2 == 1, torch.where(j % 2 == 1, counter[3], counter[2]),
                            torch.where(j % 2 == 1, counter[1], counter[0]))
        return (words >> 8) * 2.0 ** -24

    columns = torch.arange(n, device=device)[None, :]
    step = max(1, (1 << 24) // max(n, 1))
    return torch.stack([torch.cat([
        rows(b, torch.arange(i, min(i + step, m), device=device)[:, None], columns)
        for i in range(0, m, step)]) for b in range(batch)])


def torch_names(torch, exact: bool) -> dict[str, object]:
    """The language's names as torch has them. exact: in float64, nothing rounded at an output, and
    random numbers are the language's own."""
    F = torch.nn.functional
    single = torch.float64 if exact else torch.float32

    def along(axis):
        return (-2, -1) if axis is None else -1 if axis == 1 else -2

    def summed(f):
        return lambda x, axis=None: f(x, dim=along(axis), keepdim=True, dtype=single)

    def maximum(x, other=None, axis=0, group=None):
        if group:
            return x.unflatten(-1, (-1, group)).amax(-1)
        if other is None:
            return x.amax(along(axis), keepdim=True)
        return torch.maximum(x, other) if isinstance(other, torch.Tensor) else x.clamp(min=other)

    def repeat(x, group):
        return x[..., None].expand(*x.shape, group).flatten(-2)

    def dropout(x):
        if not exact:
            return F.dropout(x, 0.1, True)
        shape = x.shape if x.dim() == 3 else (1, *x.shape)
        return torch.where(philox(torch, 1, shape, x.device).view(x.shape) < 0.9, x / 0.9, 0.0)

    def row_loss(x, label):
        labels = label.expand(*x.shape[:-1], 1).flatten()
        flat = F.cross_entropy((x if exact else x.float()).flatten(0, -2), labels, reduction="none")
        return flat.view(*x.shape[:-1], 1)

    def elements_loss(x, target):
        each = torch.clamp(x, min=0) - x * target + torch.log1p(torch.exp(-torch.abs(x)))
        loss = F.binary_cross_entropy_with_logits
        return summed(torch.sum)(each) if exact else \
            loss(x.float(), target.float(), reduction="none").sum((-2, -1), keepdim=True)

    def largest(x):
        top = torch.topk(x, 2, dim=-1).values
        return top[..., :1], top[..., 1:]

    def argmax(x, axis):
        return x if exact else x.argmax(-1, keepdim=True)  # compared by what lies there

    dtypes = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
              "i64": torch.int64, "s8": torch.int8, "e4m3": torch.float8_e4m3fn}

    def stored(x, dtype):
        if dtype == "s8":
            x = (x if exact else x.round()).clamp(-128, 127)
        elif dtype == "e4m3":
            x = x.clamp(-448, 448)
        return x if exact else x.to(dtypes[dtype])

    return {
        "relu": torch.relu, "gelu": lambda x: F.gelu(x, approximate="tanh"), "gelu_erf": F.gelu,
        "silu": F.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "mish": F.mish,
        "softplus": F.softplus, "elu": F.elu, "selu": F.selu, "leaky_relu": F.leaky_relu,
        "hardswish": F.hardswish, "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "relu_squared": lambda x: torch.relu(x).square(), "hardsigmoid": F.hardsigmoid,
        "softsign": F.softsign, "logsigmoid": F.logsigmoid, "relu6": F.relu6,
        "soft_cap": lambda x: 30 * torch.tanh(x / 30), "abs": torch.abs, "where": torch.where,
        "gelu_backward": lambda g, z: torch.ops.aten.gelu_backward(g, z, approximate="tanh"),
        "silu_backward": torch.ops.aten.silu_backward,
        "relu_backward": lambda g, z: torch.ops.aten.threshold_backward(g, z, 0),
        "n_index": lambda x: torch.arange(x.shape[-1], device=x.device)[None, :],
        "m_index": lambda x: torch.arange(x.shape[-2], device=x.device)[:, None],
        "chunk": lambda x, k: x.chunk(k, -1), "repeat": repeat, "max": maximum, "argmax": argmax,
        "sum": summed(torch.sum), "mean": summed(torch.mean), "dropout": dropout,
        "var": lambda x, axis: torch.var(x.to(single), dim=along(axis), correction=0, keepdim=True),
        "logsumexp": lambda x, axis: torch.logsumexp(x.to(single), along(axis), keepdim=True),
        "softmax": lambda x: torch.softmax(x, -1), "log_softmax": lambda x: F.log_softmax(x, -1),
        "l2_norm": lambda x: F.normalize(x, dim=-1, eps=1e-6),
        "rms_norm": lambda x, gamma: F.rms_norm(x, x.shape[-1:], gamma.to(x.dtype), 1e-6),
        "layer_norm": lambda x, gamma, beta: F.layer_norm(
            x, x.shape[-1:], gamma.to(x.dtype), beta.to(x.dtype), 1e-5),
        "cross_entropy": row_loss, "bce_with_logits": elements_loss, "two_largest": largest,
        "inf": math.inf, "stored": stored, "torch": torch}


def torch_form(torch, e: Epilogue, own: str, exact: bool = False, name: str = "epilogue"):
    """The product and its epilogue as a function of torch, in a code object of its own: (a, b,
    operands...) -> a tuple of the outputs, each with all of its axes."""
    dtype = {"own": own}
    results = [f"stored({o.name}, {dtype.get(o.dtype, o.dtype)!r})" for o in e.outputs]
    lines = [line.replace("_index()", "_index(acc)") for line in e.lines]
    parameters = ", ".join(["a", "b", *(o.name for o in e.operands)])
    body = ["acc = a @ b", *lines, f"return ({', '.join(results)},)"]
    text = f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in body)
    names = torch_names(torch, exact)
    # Without a source Dynamo wraps a function in one of its own, whose recompilations it limits.
    file = f"{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), names)  # noqa: S102 -- made above
    return names[name]
