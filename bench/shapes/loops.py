"""An epilogue as the loop that somebody would write behind a BLAS call: C++ for -O3 -ffast-math.

A row at a time: what can be computed in one loop over its columns is, reductions with it; what
needs a row's statistics follows in the next loop, out of a buffer of the row. What needs a column's
statistics follows in a second pass over the rows.
"""
from __future__ import annotations

import ast
from dataclasses import dataclass

from epilogues import DEFINITIONS, Epilogue

PRELUDE = r"""
#include <cmath>
#include <cstdint>
#include <vector>
using std::int64_t;
struct Hand { int64_t m, n; const float* acc; const void* operand[8]; void* output[8]; };
#define F static inline float
F max(float a, float b) { return a > b ? a : b; }
F min(float a, float b) { return a < b ? a : b; }
F where(bool c, float a, float b) { return c ? a : b; }
F clamp(float x, float a, float b) { return min(max(x, a), b); }
F abs_(float x) { return fabsf(x); }
F sigmoid(float x) { return 1 / (1 + expf(-x)); }
F relu(float x) { return max(x, 0); }
F gelu(float x) { return x * sigmoid(1.5957691f * x * (1 + 0.044715f * x * x)); }
F gelu_erf(float x) { return 0.5f * x * (1 + erff(0.70710678f * x)); }
F silu(float x) { return x * sigmoid(x); }
F tanh_(float x) { return tanhf(x); }
F softplus(float x) { return max(x, 0) + log1pf(expf(-fabsf(x))); }
F mish(float x) { return x * tanhf(softplus(x)); }
F elu(float x) { return x > 0 ? x : expm1f(min(x, 0)); }
F selu(float x) { return 1.0507009f * (x > 0 ? x : 1.6732632f * expm1f(min(x, 0))); }
F leaky_relu(float x) { return x >= 0 ? x : 0.01f * x; }
F hardsigmoid(float x) { return clamp(x + 3, 0, 6) * (1 / 6.f); }
F hardswish(float x) { return x * hardsigmoid(x); }
F quick_gelu(float x) { return x * sigmoid(1.702f * x); }
F relu_squared(float x) { return relu(x) * relu(x); }
F softsign(float x) { return x / (1 + fabsf(x)); }
F logsigmoid(float x) { return min(x, 0) - log1pf(expf(-fabsf(x))); }
F relu6(float x) { return clamp(x, 0, 6); }
F soft_cap(float x) { return 30 * tanhf(x * (1 / 30.f)); }
F relu_backward(float g, float z) { return z > 0 ? g : 0; }
F silu_backward(float g, float z) { const float s = sigmoid(z); return g * s * (1 + z * (1 - s)); }
F gelu_backward(float g, float z) {
  const float s = sigmoid(1.5957691f * z * (1 + 0.044715f * z * z));
  return g * (s + s * (1 - s) * z * (1.5957691f + 0.2140644488f * z * z));
}
F uniform(uint32_t x) {  // a hash of the element's number
  x ^= x >> 16, x *= 0x7feb352d, x ^= x >> 15, x *= 0x846ca68b, x ^= x >> 16;
  return (float)(int)(x >> 8) * 0x1p-24f;
}
F rsqrt(float x) { return 1 / sqrtf(x); }
"""
CALLS = {"abs": "abs_", "tanh": "tanh_", "exp": "expf", "log": "logf", "log1p": "log1pf"}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Lt: "<",
         ast.LtE: "<=", ast.Eq: "=="}
# Where a reduction begins, and one element into {a}; `two` has a second result, {a}_2.
REDUCTIONS = {"sum": ("0", "{a} += {x};"), "max": ("-INFINITY", "{a} = max({a}, {x});"),
              "find": ("(float)n", "{a} = min({a}, {x});"),
              "two": ("-INFINITY", "{{ const float x = {x}, low = min({a}, x); "
                                   "{a} = max({a}, x); {a}_2 = max({a}_2, low); }}")}


@dataclass
class Value:
    """A leaf (without needs), an expression of others, or a reduction of one."""

    name: str
    text: str                  # an expression, or where a leaf lies: acc_[j]
    axes: frozenset            # of m, n and g, which stands for groups of columns
    needs: tuple[str, ...] = ()
    reduce: str = ""           # of REDUCTIONS
    over: str = ""             # n, m, mn or g: the columns of a group
    at: tuple[int, int] = (0, 0)  # its pass over the rows, and its loop over a row's columns
    kept: bool = False         # has a buffer, as another loop needs it

    @property
    def index(self) -> str:
        axes = "".join(sorted(self.axes, key="mng".find))
        return {"mn": "j", "n": "j", "mg": "q", "m": "i"}[axes]


class Loops:
    def __init__(self, e: Epilogue) -> None:
        self.e, self.group, self.values = e, 0, {}
        self.halves = any("chunk(" in line for line in e.lines)
        self.outputs = {o.name: (i, o) for i, o in enumerate(e.outputs)}

    def add(self, value: Value) -> str:
        self.values[value.name] = value
        return value.name

    def new(self, text: str, axes: frozenset, needs, reduce: str = "", over: str = "") -> str:
        return self.add(Value(f"t{len(self.values)}", text, axes, tuple(needs), reduce, over))

    # ---- from the language

    def read(self) -> None:
        self.add(Value("acc", "acc_[j]", frozenset("mn")))
        for o in self.e.operands:
            axes = frozenset({"tile": "mn", "row": "n", "col": "m", "scalar": ""}[o.kind])
            at = {"tile": "[j]", "row": "[j]", "col": "[i]", "scalar": "[0]"}[o.kind]
            self.add(Value(o.name, f"{o.name}_{at}", axes))
        for line in self.e.lines:
            targets, _, expression = line.partition(" = ")
            tree = ast.parse(expression, mode="eval").body
            names = targets.split(", ")
            if "chunk(" in expression:
                self.chunk(names, tree.args[0])
            elif "two_largest(" in expression:
                text, _, needs = self.expression(tree.args[0])
                self.add(Value(names[0], text, frozenset("m"), needs, "two", "n"))
                self.add(Value(names[1], names[0] + "_2", frozenset("m"), (names[0],)))
            else:
                self.let(names[0], tree)

    def chunk(self, names: list[str], tree: ast.expr) -> None:
        """The halves of an expression of leaves: those of the second lie n columns on."""
        for name, shift in zip(names, ("", " + n")):
            renamed = {}
            for leaf in [v for v in self.values.values() if "[j]" in v.text]:
                renamed[leaf.name] = leaf.name + ("_right" if shift else "")
                text = leaf.text.replace("[j]", f"[j{shift}]")
                self.add(Value(renamed[leaf.name], text, leaf.axes))
            self.let(name, _renamed(tree, renamed))

    def let(self, name: str, tree: ast.expr) -> str:
        text, axes, needs = self.expression(tree)
        return self.add(Value(name, text, axes, needs))

    def expression(self, tree: ast.expr) -> tuple[str, frozenset, tuple[str, ...]]:
        """Its C++, its axes and what it needs."""
        if isinstance(tree, ast.Constant):
            return f"{float(tree.value)}f", frozenset(), ()
        if isinstance(tree, ast.Name):
            return tree.id, self.values[tree.id].axes, (tree.id,)
        if isinstance(tree, ast.Call):
            return self.call(tree.func.id, tree.args, {k.arg: k.value for k in tree.keywords})
        if isinstance(tree, ast.UnaryOp):
            return self.joined("(-{})", [tree.operand])
        sides = [tree.left, tree.right if isinstance(tree, ast.BinOp) else tree.comparators[0]]
        sign = SIGNS[type(tree.op if isinstance(tree, ast.BinOp) else tree.ops[0])]
        return self.joined(f"({{}} {sign} {{}})", sides)

    def joined(self, form: str, trees: list) -> tuple[str, frozenset, tuple[str, ...]]:
        parts = [self.expression(tree) for tree in trees]
        return (form.format(*(p[0] for p in parts)), frozenset().union(*(p[1] for p in parts)),
                tuple(name for p in parts for name in p[2]))

    def call(self, name: str, args: list, keywords: dict):
        if name == "n_index":
            return "(float)j", frozenset("n"), ()
        if name == "m_index":
            return "(float)i", frozenset("m"), ()
        if name == "random":
            return "uniform((uint32_t)(i * n + j))", frozenset("mn"), ()
        if name == "repeat":
            return self.expression(args[0])
        if name in ("sum", "mean", "var", "logsumexp", "argmax") or (name == "max" and keywords):
            return self.reduction(name, args[0], keywords)
        if name in DEFINITIONS and f"F {name}(" not in PRELUDE:
            return self.definition(name, args)
        return self.joined(f"{CALLS.get(name, name)}({', '.join(['{}'] * len(args))})", args)

    def definition(self, name: str, args: list):
        """A function's body in its call's place."""
        function = ast.parse(DEFINITIONS[name]).body[0]
        names = {parameter.arg: self.new(*self.expression(arg))
                 for parameter, arg in zip(function.args.args, args)}
        for statement in function.body[:-1]:
            names[statement.targets[0].id] = self.new(
                *self.expression(_renamed(statement.value, names)))
        return self.expression(_renamed(function.body[-1].value, names))

    def reduction(self, name: str, arg: ast.expr, keywords: dict):
        over = {None: "mn", 0: "m", 1: "n"}[keywords["axis"].value if "axis" in keywords else None]
        left = frozenset("mn") - set(over)
        if "group" in keywords:
            self.group, over, left = keywords["group"].value, "g", frozenset("mg")
        text, axes, needs = self.expression(arg)
        share = {"m": "/ m", "n": "/ n", "mn": "/ m / n"}.get(over)
        if name in ("sum", "max"):
            r = self.new(text, left, needs, name, over)
            return r, left, (r,)
        if name == "mean":
            r = self.new(text, left, needs, "sum", over)
            return f"({r} {share})", left, (r,)
        if name == "var":  # in one pass, as who allows -ffast-math would
            r = self.new(text, left, needs, "sum", over)
            s = self.new(f"{text} * {text}", left, needs, "sum", over)
            return f"({s} {share} - ({r} {share}) * ({r} {share}))", left, (r, s)
        value = self.new(text, axes, needs)
        top = self.new(value, left, [value], "max", over)
        if name == "argmax":
            text = f"({value} == {top} ? (float)j : (float)n)"
            r = self.new(text, left, [value, top], "find", over)
            return r, left, (r,)
        total = self.new(f"expf({value} - {top})", left, [value, top], "sum", over)
        return f"({top} + logf({total}))", left, (top, total)

    # ---- into loops

    def place(self) -> None:
        """Each value's pass and loop, and whether it needs a buffer."""
        for value in self.values.values():
            for need in (self.values[name] for name in value.needs):
                (p, loop), ends = need.at, bool(need.reduce)
                behind = (p + 1, 0) if ends and "m" in need.over else (p, loop + ends)
                value.at = max(value.at, behind)
        for value in self.values.values():
            for need in (self.values[name] for name in value.needs):
                if need.needs and not need.reduce:
                    crosses = need.at[0] != value.at[0] or bool(need.axes & {"n", "g"})
                    apart = need.at != value.at and crosses and bool(need.axes)
                    need.kept = need.kept or apart or (self.of_columns(need) and "m" in value.axes)

    def of_columns(self, v: Value) -> bool:
        """Whether it follows from columns' statistics alone, in a loop of its own."""
        return not v.reduce and v.axes == {"n"} and any(
            self.values[x].reduce or self.of_columns(self.values[x]) for x in v.needs)

    def emit(self, symbol: str) -> str:
        self.read()
        self.place()
        code = ["const int64_t m = h->m, n = h->n" + (" / 2" if self.halves else "") + "; (void)m;"]
        kinds = {"i64": "int64_t", "bool": "bool", "s8": "signed char"}
        for i, o in enumerate(self.e.operands):
            kind = kinds.get(o.dtype, "float")
            code.append(f"const {kind}* const __restrict p{i} = (const {kind}*)h->operand[{i}];")
            if o.kind in ("row", "scalar"):
                code.append(f"const {kind}* const __restrict {o.name}_ = p{i}; (void){o.name}_;")
        for i, o in enumerate(self.e.outputs):
            kind = kinds.get(o.dtype, "float")
            code.append(f"{kind}* const __restrict out{i} = ({kind}*)h->output[{i}];")
        for v in self.values.values():
            if v.reduce and v.over == "mn":
                code.append(f"double {v.name} = {REDUCTIONS[v.reduce][0]};")
            elif v.reduce and v.over in "mg":
                code.append(f"std::vector<float> {v.name}_(n, {REDUCTIONS[v.reduce][0]});")
            elif v.kept:
                rows = "m * " if v.axes == {"m", "n"} and self.crosses_passes(v) else ""
                buffer = f"{v.name}_all"
                code.append(f"static std::vector<float> {buffer}; {buffer}.resize({rows}n);")
        for p in range(1 + max(v.at[0] for v in self.values.values())):
            code += self.one_pass([v for v in self.values.values() if v.at[0] == p])
        return f'extern "C" void {symbol}(const Hand* h) {{\n' + \
            "".join(f"  {line}\n" for line in code) + "}\n"

    def crosses_passes(self, value: Value) -> bool:
        return any(value.name in v.needs and v.at[0] != value.at[0] for v in self.values.values())

    def store(self, v: Value) -> list[str]:
        """Into its output and its buffer."""
        code = [f"{v.name}_[{v.index}] = {v.name};"] if v.kept else []
        if v.name in self.outputs:
            number, o = self.outputs[v.name]
            at = {"mn": "i * n + j", "mg": f"i * (n / {self.group}) + q"}.get(
                "".join(sorted(v.axes, key="mng".find)), v.index if v.axes else "0")
            rounded = f"(signed char)(int)rintf(clamp({v.name}, -128, 127))"
            code.append(f"out{number}[{at}] = {rounded if o.dtype == 's8' else v.name};")
        return code

    def one_pass(self, values: list[Value]) -> list[str]:
        code = [f"float* const __restrict {v.name}_ = {v.name}_all.data();" for v in values
                if v.kept and not self.crosses_passes(v)]
        once = [v for v in values if v.needs and not v.reduce and not v.axes]
        for v in once:
            code += [*self.loads(v, set(), ""), f"const float {v.name} = {v.text};", *self.store(v)]
        columns = [v for v in values if self.of_columns(v)]
        if columns:
            seen: set[str] = set()
            code += ["for (int64_t j = 0; j < n; ++j) {", *self.body(columns, seen, "n"), "}"]
        rows = [v for v in values if v not in once and v not in columns and (v.needs or v.reduce)]
        if not rows:
            return code
        code += ["for (int64_t i = 0; i < m; ++i) {",
                 "const float* const __restrict acc_ = h->acc + i * h->n; (void)acc_;"]
        for i, o in enumerate(self.e.operands):
            if o.kind in ("tile", "col"):
                row = " + i * n" if o.kind == "tile" else ""
                code.append(f"const auto* const __restrict {o.name}_ = p{i}{row}; (void){o.name}_;")
        code += [f"float* const __restrict {v.name}_ = {v.name}_all.data() + i * n;"
                 for v in self.values.values() if v.kept and v.axes == {"m", "n"} and
                 self.crosses_passes(v)]
        for loop in range(1 + max(v.at[1] for v in rows)):
            code += self.one_loop([v for v in rows if v.at[1] == loop])
        return [*code, "}"]

    def loads(self, v: Value, seen: set[str], level: str) -> list[str]:
        """What v needs and is not there yet, where code is run for each of `level`."""
        code = []
        for name in v.needs:
            need = self.values[name]
            inner = {"": frozenset(), "m": frozenset("m"), "g": frozenset("mg"),
                     "n": frozenset("mng")}[level]
            if name in seen or not need.axes <= inner:
                continue
            leaf = not need.needs and not need.reduce
            if leaf and need.text.endswith("]"):
                code.append(f"const auto {name} = {need.text};")
            elif need.reduce and need.over in "mg":
                code.append(f"const float {name} = {name}_[{need.index}];")
            elif need.kept:
                code.append(f"const float {name} = {name}_[{need.index}];")
            seen.add(name)
        return code

    def body(self, values: list[Value], seen: set[str], level: str) -> list[str]:
        code = []
        for v in values:
            code += self.loads(v, seen, level)
            if v.reduce:
                place = {"n": v.name, "m": f"{v.name}_[j]", "g": f"{v.name}_[q]",
                         "mn": f"{v.name}_row"}[v.over]
                code.append(REDUCTIONS[v.reduce][1].format(a=place, x=v.text))
            else:
                code += [f"const float {v.name} = {v.text};", *self.store(v)]
                seen.add(v.name)
        return code

    def one_loop(self, values: list[Value]) -> list[str]:
        code, after, seen = [], [], set()
        for v in [v for v in values if not v.reduce and v.axes == {"m"}]:
            code += self.body([v], seen, "m")
        inner = [v for v in values if v.reduce or v.axes & {"n", "g"}]
        for v in [v for v in inner if v.reduce]:
            start = REDUCTIONS[v.reduce][0]
            if v.over == "n":
                code.append(f"float {v.name} = {start}, {v.name}_2 = {start}; (void){v.name}_2;")
            elif v.over == "g":
                code.append(f"for (float& x : {v.name}_) x = {start};")
            elif v.over == "mn":
                code.append(f"float {v.name}_row = {start};")
                after.append(REDUCTIONS[v.reduce][1].format(a=v.name, x=f"{v.name}_row").replace(
                    "max(", "fmax("))
        of_groups = [v for v in inner if not v.reduce and "g" in v.axes and "n" not in v.axes]
        of_columns = [v for v in inner if v not in of_groups]
        groups, columns = self.body(of_groups, seen, "g"), self.body(of_columns, seen, "n")
        if not groups and not columns:
            return code
        if not self.group:
            return [*code, "for (int64_t j = 0; j < n; ++j) {", *columns, "}", *after]
        return [*code, f"for (int64_t q = 0; q < n / {self.group}; ++q) {{", *groups,
                f"for (int64_t j = q * {self.group}; j < (q + 1) * {self.group}; ++j) {{", *columns,
                "}", "}", *after]


def _renamed(tree: ast.expr, names: dict[str, str]) -> ast.expr:
    class Rename(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return ast.Name(names.get(node.id, node.id), ast.Load())

    return Rename().visit(ast.parse(ast.unparse(tree), mode="eval").body)


def loop(e: Epilogue, symbol: str) -> str:
    """extern "C" void symbol(const Hand*), to stand behind PRELUDE."""
    return Loops(e).emit(symbol)
