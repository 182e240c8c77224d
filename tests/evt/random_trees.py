"""Random trees of both vocabularies as C++, each with the epilogue in text that it should mean: random_trees.py SEED COUNT FILE

What a tree means is said here a second time, from docs/from-cutlass.md and docs/from-catlass.md alone: conversions and
roundings are written out wherever a node makes them. random_trees.h runs both and compares every bit.
"""
import random
import re
import sys

DTYPE = {"float": "f32", "half_t": "f16", "bfloat16_t": "bf16", "float_e4m3_t": "e4m3", "float_e5m2_t": "e5m2", "int8_t": "s8", "half": "f16"}
BITS = {"f32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8}
LARGEST = {"f16": "65504.0", "bf16": "3.3895313892515355e38", "e4m3": "448.0", "e5m2": "57344.0", "f32": "3.4028234663852886e38"}
ROUND = {"round_to_nearest": "", "round_toward_zero": ", round=toward_zero", "round_toward_infinity": ", round=up",
         "round_toward_neg_infinity": ", round=down", "round_to_nearest_satfinite": ""}


class Case:
    """One tree: its type, the braces of its Arguments, and the lines of its text."""

    def __init__(self, rng, number):
        self.rng, self.number = rng, number
        self.M, self.N, self.K = rng.randint(1, 21), rng.randint(1, 37), rng.randint(1, 19)
        self.L = rng.choice([1, 1, 1, 2, 3])
        self.setup, self.lines, self.parameters, self.outputs = [], [], ["acc"], []
        self.source, self.count, self.axes = None, 0, {"acc": {"m", "n"}}

    def fresh(self, prefix="v"):
        self.count += 1
        return f"{prefix}{self.count}"

    def let(self, expression):
        name = self.fresh()
        self.lines.append(f"{name} = {expression}")
        self.axes[name] = self.axes_of(expression)
        return name

    def axes_of(self, expression):
        return set().union(*(self.axes.get(name, set()) for name in re.findall(r"\w+", expression)))

    def spread(self, x):
        """A value of a tile's elements: an epilogue's may lack an axis, a visitor's never does."""
        missing = {"m", "n"} - self.axes_of(x)
        for axis in sorted(missing):
            x = f"where({axis}_index() >= 0, {x}, {x})"
        return self.let(x) if missing else x

    def array(self, element, count):
        name = self.fresh("a")
        self.setup.append(f"auto& {name} = c.array<{element}>({count}, {self.count});")
        return name

    def operand(self, kind, element, tensor):
        """An operand of the text, bound to a tensor."""
        name = self.fresh("x")
        self.parameters.append(f"{name}: {kind}[{DTYPE[element]}]")
        self.axes[name] = {"tile": {"m", "n"}, "row": {"n"}, "col": {"m"}, "scalar": set()}[kind]
        self.setup.append(f'c.bind("{name}", {tensor});')
        return name

    def output(self, expression, element, extents, strides, count):
        """An output of the text and the memory of the tree's; its pointer in C++."""
        name, memory = self.fresh("y"), self.fresh("o")
        self.lines.append(f"{name}: {DTYPE[element]} = {expression}")
        self.outputs.append(name)
        self.setup.append(f'auto& {memory} = c.output<{element}>("{name}", {count}, {{{extents}}}, {{{strides}}});')
        return f"{memory}.data()"

    def number_of(self, element):
        """A number that the type has: in C++ and as it is bound."""
        value = self.rng.choice([-2, -1, -0.5, 0, 0.25, 0.5, 1, 2, 3])
        return f"{element}({value})", f"Tensor::scalar({value}, {DTYPE[element]})"

    def by_value(self, element):
        value, tensor = self.number_of(element)
        return value, self.operand("scalar", element, tensor)


def converted(x, source, target, style="round_to_nearest"):
    source, target = DTYPE[source], DTYPE[target]
    if source == target or (target == "f32" and source != "s8"):
        return x
    if source != "s8" and target != "s8" and BITS[source] < BITS[target]:
        return x
    if style == "round_to_nearest_satfinite" and target != "s8":
        x = f"clamp({x}, -{LARGEST[target]}, {LARGEST[target]})"
    return f"cast({x}, {target}{ROUND[style]})"


def strides_of(case, rows, columns, row_major):
    """C++'s stride of a tile, and the same for the text: m, n, batch."""
    ld, batch = (columns, rows * columns)
    if row_major:
        return f"{{{ld}, {{}}, {batch}}}", (ld, 1, batch)
    return f"{{{{}}, {rows}, {batch}}}", (1, rows, batch)


class Cutlass:
    UNARY = {"ReLu": "relu({0})", "Sigmoid": "sigmoid({0})", "Tanh": "tanh({0})", "SiLu": "silu({0})", "GELU": "gelu_erf({0})",
             "GELU_taylor": "gelu_tanh({0})", "HardSwish": "hardswish({0})", "negate": "-{0}", "square": "{0} * {0}",
             "absolute_value_op": "abs({0})", "Identity": "{0}"}
    WITH_PARAMETERS = {"Clamp": (2, "clamp({0}, {1}, {2})"), "LeakyReLU": (1, "where({0} > 0, {0}, {0} * {1})"),
                       "ThresholdReLU": (2, "min(where({0} <= {1}, 0, {0}), {2})"), "Scale": (1, "{1} * {0}"),
                       "ScaledSiLu": (1, "{1} * silu({0})"), "LowerBound": (1, "max({0}, {1})")}
    BINARY = {"plus": "{0} + {1}", "minus": "{0} - {1}", "multiplies": "{0} * {1}", "divides": "{0} / {1}",
              "maximum": "where({0} != {0}, {1}, where({1} != {1}, {0}, max({0}, {1})))",
              "minimum": "where({0} != {0}, {1}, where({1} != {1}, {0}, min({0}, {1})))",
              "maximum_with_nan_propagation": "max({0}, {1})", "dGELU": "{0} * dgelu_tanh({1})",
              "dReLU_Z": "where({1} < 0, 0, {0})", "square_difference": "({0} - {1}) * ({0} - {1})", "ReLu": "max({1}, {0})"}
    STYLES = ["round_to_nearest"] * 4 + list(ROUND)

    def __init__(self, case):
        self.case, self.rng = case, case.rng
        self.element_c = self.rng.choice(["float", "half_t", "bfloat16_t", "float_e4m3_t"])

    # Each node gives its type, its clause of Arguments, the name of its value and that value's element type.

    def leaf(self):
        return self.rng.choice([self.accumulator, self.accumulator, self.fetch, self.scalars, self.vector, self.tile])()

    def accumulator(self):
        return "Sm90AccFetch", "{}", self.acc, self.acc_element

    def fetch(self):
        case = self.case
        if not case.source:
            case.source = case.operand("tile", self.element_c, "c.source()")
        return f"Sm90SrcFetch<{self.element_c}>", "{}", case.source, self.element_c

    def scalars(self):
        case, rng = self.case, self.rng
        element, count = rng.choice(["float", "float", "half_t", "bfloat16_t"]), rng.choice([1, 1, 1, 2, 3])
        values, pointers, strides, product = [], [], [], None
        for _ in range(count):
            if rng.random() < 0.5:
                value, x = case.by_value(element)
                pointer, batch = "nullptr", 0
            else:
                value, batch = f"{element}(9)", rng.choice([0, 1])
                memory = case.array(element, case.L)
                pointer = f"{memory}.data()"
                x = case.operand("scalar", element, f"c.tensor({memory}, {{}}, {{}}, {batch})")
            values.append(value), pointers.append(pointer), strides.append(f"{{{{}}, {{}}, {batch}}}")
            product = x if product is None else case.let(converted(f"({product} * {x})", "float", element))
        node = f"Sm90ScalarBroadcast<{element}, Stride<_0, _0, std::int64_t>, {count}>"
        return node, f"{{{{{', '.join(values)}}}, {{{', '.join(pointers)}}}, {{{', '.join(strides)}}}}}", product, element

    def vector(self):
        case, rng = self.case, self.rng
        row = rng.random() < 0.5
        element = rng.choice(["float", "half_t", "float_e5m2_t", "int8_t"])
        compute = rng.choice(["float", "float", "half_t"]) if element != "int8_t" else "float"
        extent, kind = (case.N, "row") if row else (case.M, "col")
        null, one, batch = rng.random() < 0.25, rng.random() < 0.25, rng.random() < 0.5
        value = f"{element}(0)"
        if null:
            value, x = case.by_value(element)
            pointer = "nullptr"
        else:
            memory = case.array(element, case.L * extent)
            pointer = f"{memory}.data()"
            tensor = f"c.tensor({memory}, {{{'' if one else extent}}}, {{{'' if one else 1}}}, {extent if batch else 0})"
            x = case.operand("scalar" if one else kind, element, tensor)
        step = "false" if one else "true"
        stride = f"{{{{}}, {step}, {extent if batch else 0}}}" if row else f"{{{step}, {{}}, {extent if batch else 0}}}"
        strides = "Stride<_0, bool, std::int64_t>" if row else "Stride<bool, _0, std::int64_t>"
        node = f"Sm90{'Row' if row else 'Col'}Broadcast<0, T, {element}, {compute}, {strides}>"
        return node, f"{{{pointer}, {value}, {stride}}}", case.let(converted(x, element, compute)), compute

    def tile(self):
        case, rng = self.case, self.rng
        element, row_major = rng.choice(["float", "half_t", "bfloat16_t", "float_e4m3_t", "int8_t"]), rng.random() < 0.7
        stride, (m, n, b) = strides_of(case, case.M, case.N, row_major)
        value = f"{element}(0)"
        if rng.random() < 0.2:
            value, x = case.by_value(element)
            pointer = "nullptr"
        else:
            memory = case.array(element, case.L * case.M * case.N)
            pointer = f"{memory}.data()"
            x = case.operand("tile", element, f"c.tensor({memory}, {{{case.M}, {case.N}}}, {{{m}, {n}}}, {b})")
        node = f"Sm90AuxLoad<0, void, {element}, {'RowMajor' if row_major else 'ColumnMajor'}>"
        return node, f"{{{pointer}, {value}, {stride}}}", x, element

    def compute(self, inputs):
        """A function of these (value, element); its node, clause, value and element."""
        case, rng = self.case, self.rng
        style = rng.choice(self.STYLES)
        element, output = rng.choice(["float", "float", "float", "half_t"]), rng.choice(["float", "float", "half_t", "bfloat16_t", "float_e4m3_t"])
        x = [case.let(converted(value, source, element, style)) for value, source in inputs]
        clause = "{}"
        if len(x) == 1 and rng.random() < 0.4:
            name, (count, form) = rng.choice(list(self.WITH_PARAMETERS.items()))
            given = [case.by_value(element) for _ in range(count)]
            clause = "{" + ", ".join(value for value, _ in given) + "}"
            result = form.format(x[0], *(operand for _, operand in given))
        else:
            forms = {1: self.UNARY, 2: self.BINARY, 3: {"multiply_add": "{0} * {1} + {2}"}}[len(x)]
            name, form = rng.choice(list(forms.items()))
            result = form.format(*x)
        result = case.let(converted(result, "float", element))
        result = case.let(converted(result, element, output, style))
        return f"Sm90Compute<{name}, {output}, {element}, FloatRoundStyle::{style}>", clause, result, output

    def store(self, value, element):
        case, rng = self.case, self.rng
        stored, style, row_major = rng.choice(["float", "half_t", "float_e4m3_t", "int8_t"]), rng.choice(self.STYLES), rng.random() < 0.7
        stride, (m, n, b) = strides_of(case, case.M, case.N, row_major)
        pointer = "nullptr"
        if rng.random() < 0.8:
            pointer = case.output(case.spread(converted(value, element, stored, style)), stored, f"{case.M}, {case.N}", f"{m}, {n}, {b}", case.L * case.M * case.N)
        layout = "RowMajor" if row_major else "ColumnMajor"
        return f"Sm90AuxStore<0, void, {stored}, FloatRoundStyle::{style}, {layout}>", f"{{{pointer}, {stride}}}"

    def reduction(self, value, element):
        case, rng = self.case, self.rng
        axis, output, element_in = rng.choice(["row", "col", "scalar"]), rng.choice(["float", "half_t"]), rng.choice(["float", "float", "half_t"])
        style = rng.choice(self.STYLES)
        kind = rng.choice(["plus", "maximum", "maximum_with_nan_propagation", "amax"] if axis != "scalar" else ["plus", "maximum", "amax"])
        x = case.let(converted(value, element, element_in, style))
        identity = "0" if kind == "plus" else rng.choice(["0", "1.5", "-2"])
        if kind == "amax":
            x = case.let(f"abs({x})")
        if kind == "maximum":
            x = case.let(f"where({x} != {x}, -inf, {x})")
        x = case.spread(x)
        across = rng.random() < 0.5
        over = {"row": ", axis=0", "col": ", axis=1", "scalar": ""}[axis] + (", batch=True" if across and case.L > 1 else "")
        result = f"sum({x}{over})" if kind == "plus" else f"max(max({x}{over}), {float(identity)})".replace(f"{over})", f"{over})")
        result = case.let(converted(result, "float", element_in))
        result = case.let(converted(result, element_in, output, style))
        extent = {"row": case.N, "col": case.M, "scalar": 1}[axis]
        shape = {"row": f"{case.N}", "col": f"{case.M}", "scalar": ""}[axis]
        batch = 0 if across else extent
        steps = {"row": "1", "col": "1", "scalar": ""}[axis]
        pointer = "nullptr"
        if rng.random() < 0.85:
            pointer = case.output(result, output, shape, f"{steps}{', ' if steps else ''}{batch}", case.L * extent)
        round_style = f"FloatRoundStyle::{style}"
        if axis == "scalar":
            combine = "atomic_add" if kind == "plus" else "atomic_maximum"
            node = f"Sm90ScalarReduction<{kind}, {combine}, {output}, {element_in}, {round_style}, Stride<_0, _0, std::int64_t>>"
            return node, f"{{{pointer}, {element_in}({identity}), {{{{}}, {{}}, {batch}}}}}"
        shuffle = "maximum_with_nan_propagation" if kind == "amax" else kind
        name, strides = ("Row", "Stride<_0, _1, std::int64_t>") if axis == "row" else ("Col", "Stride<_1, _0, std::int64_t>")
        node = f"Sm90{name}Reduction<{kind}, {shuffle}, {shuffle}, 0, T, {output}, {element_in}, {round_style}, {strides}>"
        return node, f"{{{pointer}, {element_in}({identity}), {{{{}}, {{}}, {batch}}}}}"

    def tree(self, depth):
        rng, case = self.rng, self.case
        if depth == 0:
            return self.leaf()
        choice = rng.random()
        if choice < 0.12:  # beta * C + Z
            beta, z = self.scalars(), self.tree(depth - 1)
            source = self.fetch()
            x = [case.let(converted(value, element, "float")) for _, _, value, element in (beta, source, z)]
            value = case.let(f"scaled({x[0]}, {x[1]}) + {x[2]}")
            node = "Sm90Compute<homogeneous_multiply_add, float, float, FloatRoundStyle::round_to_nearest>"
            return (f"Sm90EVT<{node}, {beta[0]}, {source[0]}, {z[0]}>", f"{{{beta[1]}, {source[1]}, {z[1]}, {{}}}}", value, "float")
        if choice < 0.3:
            child = self.tree(depth - 1)
            node, clause = (self.store if rng.random() < 0.5 else self.reduction)(child[2], child[3])
            return f"Sm90EVT<{node}, {child[0]}>", f"{{{child[1]}, {clause}}}", child[2], child[3]
        if choice < 0.42:
            return self.topological(depth)
        if choice < 0.5 and depth > 1:
            return self.split(depth)
        children = [self.tree(depth - 1 if i == 0 else rng.randint(0, depth - 1)) for i in range(rng.choice([1, 1, 2, 2, 3]))]
        node, clause, value, element = self.compute([(c[2], c[3]) for c in children])
        clauses = ", ".join([c[1] for c in children] + [clause])
        return f"Sm90EVT<{node}, {', '.join(c[0] for c in children)}>", f"{{{clauses}}}", value, element

    def topological(self, depth):
        rng, case = self.rng, self.case
        compute = rng.choice(["float", "float", "half_t"])
        operations, clauses, edges, results = [], [], [], []
        count = rng.randint(2, 5)
        for i in range(count):
            taken = [rng.randrange(i) for _ in range(rng.randint(1, min(3, i + 1)))] if i > 0 and (i == count - 1 or rng.random() < 0.7) else []
            if taken:
                node, clause, value, element = self.compute([results[k] for k in taken])
            else:
                node, clause, value, element = self.tree(rng.randint(0, depth - 1))
            if i < count - 1:
                value, element = case.let(converted(value, element, compute)), compute
            results.append((value, element)), operations.append(node), clauses.append(clause)
            edges.append(f"seq<{', '.join(map(str, taken))}>")
        return (f"Sm90TopologicalVisitor<{compute}, tuple<{', '.join(edges)}>, {', '.join(operations)}>",
                f"{{{', '.join(clauses)}}}", *results[-1])

    def split(self, depth):
        first = self.tree(depth - 1)
        outer, self.acc, self.acc_element = (self.acc, self.acc_element), first[2], first[3]
        aux = [self.tree(self.rng.randint(1, depth - 1)) for _ in range(self.rng.randint(0, 2))]
        last = self.tree(depth - 1)
        self.acc, self.acc_element = outer
        types = ", ".join(t[0] for t in [first, last, *aux])
        return f"Sm90SplitTreeVisitor<{types}>", f"{{{', '.join(t[1] for t in [first, *aux, last])}}}", last[2], last[3]

    def write(self):
        case, rng = self.case, self.rng
        element = rng.choice(["float", "half_t", "bfloat16_t", "int8_t"])
        self.acc, self.acc_element = "acc", "float"
        if element == "int8_t":
            self.acc = case.let("cast(acc, f32)")
        node, clause, value, handed = self.tree(rng.randint(1, 3))
        output = rng.choice(["float", "half_t", "bfloat16_t", "float_e4m3_t"])
        case.lines.append(f"D: {DTYPE[output]} = {case.spread(value)}")
        case.outputs.append("D")
        source = self.element_c if case.source else "void"
        kind = rng.choice(["RowMajor", "ColumnMajor"])
        return f"""
TEST(RandomTrees, {'Cutlass'}{case.number}) {{
  using namespace evt::cutlass;
  Random c({case.M}, {case.N}, {case.K}, {case.L}, {DTYPE[element]}, {DTYPE[self.element_c]}, {DTYPE[output]}, {'true' if kind == 'RowMajor' else 'false'});
  {chr(10).join('  ' + line for line in case.setup).strip()}
  using Tree = {node};
  using G = GemmUniversal<{element}, RowMajor, {element}, {kind}, {source}, RowMajor, {output}, RowMajor, Tree>;
  const Tree::Arguments thread = {clause};
  c.run<G>(R"({text_of(case)})", thread);
}}
"""


def text_of(case):
    return f"def epilogue({', '.join(case.parameters)}):\n" + "".join(f"    {line}\n" for line in case.lines) + f"    return {', '.join(case.outputs)}\n"


class Catlass:
    UNARY = {"Exp": "exp({0})", "Relu": "relu({0})", "Silu": "silu({0})", "Sqrt": "sqrt({0})", "RsqrtFast": "rsqrt({0})",
             "Sigmoid": "sigmoid({0})", "Reciprocal": "1 / {0}"}
    SCALAR = {"LeakyRelu": "where({0} >= 0, {0}, {0} * {1})", "Muls": "{0} * {1}", "Adds": "{0} + {1}", "Maxs": "max({0}, {1})",
              "Mins": "min({0}, {1})"}
    MANY = {"Add": "({0} + {1})", "Sub": "({0} - {1})", "Mul": "({0} * {1})", "Div": "({0} / {1})", "Max": "max({0}, {1})", "Min": "min({0}, {1})"}

    def __init__(self, case):
        self.case, self.rng = case, case.rng
        self.case.L = 1

    def layout(self):
        case, extra = self.case, self.rng.choice([0, 0, 3])
        if self.rng.random() < 0.7:
            return "layout::RowMajor", f"{{{case.M}, {case.N}, {case.N + extra}}}", (case.N + extra, 1), case.M * (case.N + extra)
        return "layout::ColumnMajor", f"{{{case.M}, {case.N}, {case.M + extra}}}", (1, case.M + extra), case.N * (case.M + extra)

    def leaf(self, element):
        case, rng = self.case, self.rng
        choice = rng.random()
        if choice < 0.4 and element == "float":
            return "VisitorAccLoad<float>", "{}", "acc"
        if choice < 0.7:
            layout, braces, (m, n), count = self.layout()
            memory = case.array(element, count)
            x = case.operand("tile", element, f"c.tensor({memory}, {{{case.M}, {case.N}}}, {{{m}, {n}}}, 0)")
            return f"VisitorAuxLoad<{element}, {layout}>", f"{{{memory}.data(), {braces}}}", x
        memory = case.array(element, case.N)
        x = case.operand("row", element, f"c.tensor({memory}, {{{case.N}}}, {{1}}, 0)")
        return f"VisitorRowBroadcast<{element}, layout::RowMajor>", f"{{{memory}.data(), {{1, {case.N}}}}}", x

    def compute(self, x, element):
        case, rng = self.case, self.rng
        clause, scalars = "{}", ""
        if len(x) == 1 and rng.random() < 0.5:
            name, form = rng.choice(list(self.SCALAR.items()))
            value, operand = case.by_value(element)
            clause, scalars, result = f"{{{{{value}}}}}", f", {element}", form.format(x[0], operand)
        elif len(x) == 1:
            name, form = rng.choice(list(self.UNARY.items()))
            result = form.format(x[0])
        else:
            name, form = rng.choice(list(self.MANY.items()))
            result = x[0]
            for other in x[1:]:
                result = form.format(result, other)
        return f"VisitorCompute<{name}, {element}{scalars}>", clause, case.let(converted(result, "float", element))

    def tree(self, depth, element):
        case, rng = self.case, self.rng
        if depth == 0:
            return self.leaf(element)
        if rng.random() < 0.2:
            other = "half" if element == "float" else "float"
            child = self.tree(depth - 1, other)
            mode, rounding = rng.choice([("CAST_NONE", ""), ("CAST_RINT", ""), ("CAST_FLOOR", ", round=down"), ("CAST_CEIL", ", round=up"), ("CAST_TRUNC", ", round=toward_zero")])
            value = child[2] if element == "float" else case.let(f"cast({child[2]}, f16{rounding})")
            return f"TreeVisitor<VisitorCast<{element}, {other}, AscendC::RoundMode::{mode}>, {child[0]}>", f"{{{child[1]}, {{}}}}", value
        if rng.random() < 0.15:
            child = self.tree(depth - 1, element)
            node, clause = self.store(child[2], element)
            return f"TreeVisitor<{node}, {child[0]}>", f"{{{child[1]}, {clause}}}", child[2]
        if rng.random() < 0.2:
            return self.topological(depth, element)
        children = [self.tree(depth - 1 if i == 0 else rng.randint(0, depth - 1), element) for i in range(rng.choice([1, 1, 2, 2, 3]))]
        node, clause, value = self.compute([c[2] for c in children], element)
        clauses = ", ".join([c[1] for c in children] + [clause])
        return f"TreeVisitor<{node}, {', '.join(c[0] for c in children)}>", f"{{{clauses}}}", value

    def topological(self, depth, element):
        rng = self.rng
        operations, clauses, edges, values = [], [], [], []
        count = rng.randint(2, 5)
        for i in range(count):
            taken = [i - 1] + [rng.randrange(i) for _ in range(rng.randint(0, 2))] if i else []  # all are reached
            node, clause, value = self.compute([values[k] for k in taken], element) if taken else self.tree(depth - 1, element)
            values.append(value), operations.append(node), clauses.append(clause)
            edges.append(f"seq<{', '.join(map(str, taken))}>")
        return f"TopologicalVisitor<tuple<{', '.join(edges)}>, {', '.join(operations)}>", f"{{{', '.join(clauses)}}}", values[-1]

    def store(self, value, element):
        layout, braces, (m, n), count = self.layout()
        pointer = self.case.output(self.case.spread(value), element, f"{self.case.M}, {self.case.N}", f"{m}, {n}, 0", count)
        return f"VisitorAuxStore<{element}, {layout}>", f"{{{pointer}, {braces}}}"

    def write(self):
        case, rng = self.case, self.rng
        element = rng.choice(["float", "half"])
        child = self.tree(rng.randint(1, 3), element)
        node, clause = self.store(child[2], element)
        inputs = rng.choice(["float", "half", "bfloat16_t"])
        on_chip = rng.choice(["true", "false"])
        return f"""
TEST(RandomTrees, Catlass{case.number}) {{
  using namespace evt::catlass;
  Random c({case.M}, {case.N}, {case.K}, 1, {DTYPE[inputs]}, f32, f32, true);
  {chr(10).join('  ' + line for line in case.setup).strip()}
  using Tree = TreeVisitor<{node}, {child[0]}>;
  const Tree::Arguments arguments = {{{child[1]}, {clause}}};
  c.run_catlass<Tree, {inputs}, {on_chip}>(R"({text_of(case)})", arguments);
}}
"""


def main():
    seed, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with open(path, "w") as out:
        out.write("// Made by random_trees.py.\n#include \"evt/random_trees.h\"\n\nnamespace postlude::evt_tests {\nnamespace {\n")
        for number in range(seed, seed + count):
            rng = random.Random(number)
            case = Case(rng, number)
            out.write((Catlass if number % 3 == 2 else Cutlass)(case).write())
        out.write("\n}  // namespace\n}  // namespace postlude::evt_tests\n")


main()
