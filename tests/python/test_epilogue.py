"""From a Python function to a graph: what may stand in it, and what its operands and outputs are called."""
import contextlib
import cProfile
import inspect
import math
import pickle
import textwrap

import numpy as np
import pytest

import postlude as post


def operands(epilogue):
    return {name: (axes, dtype) for name, axes, dtype in epilogue.graph.operands}


def outputs(epilogue):
    return {name: (axes, dtype) for name, axes, dtype in epilogue.graph.outputs}


def test_a_function_becomes_a_graph_with_the_users_names():
    @post.epilogue
    def f(acc, bias: post.row, residual: post.tile):
        shifted = acc + bias
        d = post.gelu(shifted) + residual * shifted
        return {"D": d, "amax": post.max(abs(d), axis=1)}

    assert operands(f) == {"bias": (4, None), "residual": (6, None)}
    assert outputs(f) == {"D": (6, None), "amax": (2, None)}
    text = str(f)
    assert text.startswith("def f(acc, bias: row, residual: tile):")
    assert "shifted = acc + bias" in text and "gelu(shifted)" in text
    assert str(post.parse(text).graph) == text


def test_classes_and_dtypes_in_every_spelling():
    @post.epilogue
    def f(acc, a: post.row[post.bf16], b: "row", c: "column", d: "tensor", e: "scalar", g: "post.col[post.i64]",
          h: post.NDArray["tensor", "float16"], i: "float32"):
        D = acc + a + b + c + d + e + g + h + i
        return D

    assert operands(f) == {"a": (4, post.bf16), "b": (4, None), "c": (2, None), "d": (6, None), "e": (0, None),
                           "g": (2, post.i64), "h": (6, post.f16), "i": (0, post.f32)}


def test_loops_closures_helpers_and_rebinding():
    slopes = [0.5, 0.25, 2.0]

    def twice(x):
        return x + x

    @post.epilogue
    def f(acc):
        x = acc
        for i, slope in enumerate(slopes):
            x = post.where(x > i, x, slope * x) if i % 2 == 0 else twice(x)
        return x

    acc = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    expected = acc
    for i, slope in enumerate(slopes):
        expected = np.where(expected > i, expected, slope * expected) if i % 2 == 0 else 2 * expected
    np.testing.assert_allclose(post.stream(acc, epilogue=f), expected, rtol=1e-6)
    np.testing.assert_allclose(f(acc), expected, rtol=1e-6)


def test_one_epilogue_may_call_another():
    @post.epilogue
    def inner(acc, bias: post.row):
        return post.relu(acc + bias)

    @post.epilogue
    def outer(acc, bias: post.row):
        d = inner(acc, bias) * 2
        return d

    assert "relu" in str(outer)


def test_returned_names():
    @post.epilogue
    def bare(acc):
        return acc * 2

    @post.epilogue
    def named(acc):
        loss = post.sum(acc)
        return loss

    @post.epilogue
    def pair(acc):
        z = acc + 1
        D = post.relu(z)
        return D, z

    @post.epilogue
    def alias(acc):
        first = acc * 3
        second = first
        total = post.sum(first, axis=1)
        return second, total

    assert list(outputs(bare)) == ["D"]
    assert list(outputs(named)) == ["loss"]
    assert list(outputs(pair)) == ["D", "z"]
    assert list(outputs(alias)) == ["second", "total"]


def test_annotated_outputs_have_their_dtype():
    @post.epilogue
    def f(acc):
        D: post.bf16 = acc * 2
        amax: "f32" = post.max(abs(D), axis=1)
        return D, amax

    assert outputs(f) == {"D": (6, post.bf16), "amax": (2, post.f32)}


HALF = post.bf16  # "half" by itself is f16


def test_a_declaration_means_what_its_names_mean():
    half, other = HALF, post.e4m3

    def helper(x):
        D: post.f16 = x
        return D

    @post.epilogue
    def f(acc):
        k: int = 3
        x: post.Value = acc * k
        D: half = helper(x)
        E: other = x
        F: np.float16 = x
        G: post.tile[post.f16] = x
        H = helper(x)
        return {"x": x, "D": D, "E": E, "F": F, "G": G, "H": H}

    assert {name: dtype for name, (_, dtype) in outputs(f).items()} == {
        "x": None, "D": post.bf16, "E": post.e4m3, "F": post.f16, "G": post.f16, "H": None}


def test_the_last_assignment_declares_as_in_the_text():
    def f(acc):
        D: post.bf16 = acc
        D = D + 1
        return D

    def g(acc):
        D: post.bf16 = acc
        with contextlib.nullcontext():
            return D

    assert outputs(post.epilogue(f)) == {"D": (6, None)}
    assert post.parse(textwrap.dedent(inspect.getsource(f))).graph.outputs == post.epilogue(f).graph.outputs
    assert outputs(post.epilogue(g)) == {"D": (6, post.bf16)}


UNREADABLE = '''
def plain(acc): D = acc; s = acc * 2; return D, s
def named(acc): d = acc * 2; return {"D": d, "s": post.sum(d)}
def expression(acc): return acc * 2
def declared(acc): D: post.f16 = acc; return D
def declared_named(acc): d: post.f16 = acc; return {"D": d}
def alias(acc): D = acc * 2; E = D; return E
'''


def test_without_a_source_names_are_known_and_no_dtype_is_dropped():
    functions = {"post": post}
    exec(UNREADABLE, functions)
    assert list(outputs(post.epilogue(functions["plain"]))) == ["D", "s"]
    assert list(outputs(post.epilogue(functions["named"]))) == ["D", "s"]
    assert list(outputs(post.epilogue(functions["expression"]))) == ["D"]
    for name in ("declared", "declared_named"):
        with pytest.raises(post.TextError, match="source of .* cannot be read.*declare a dtype"):
            post.epilogue(functions[name]).graph
    with pytest.raises(post.GraphError, match="D or E"):
        post.epilogue(functions["alias"]).graph


def test_tracing_leaves_a_profiler_alone():
    profiler = cProfile.Profile()
    profiler.enable()
    post.epilogue(lambda acc: post.gelu(acc)).graph
    math.sqrt(4)
    profiler.disable()
    assert any("sqrt" in str(entry.code) for entry in profiler.getstats())


def test_lambda():
    f = post.epilogue(lambda acc, bias: post.relu(acc + bias))
    x = np.array([[1.0, -2.0]], np.float32)
    np.testing.assert_array_equal(post.stream(x, epilogue=f, bias=np.float32([1, 1])), [[2, 0]])


def test_unannotated_operands_take_their_class_from_rank_and_never_from_sizes():
    @post.epilogue
    def f(acc, x):
        return acc + x

    square = np.zeros((3, 3), np.float32)
    row = np.float32([1, 2, 3])
    np.testing.assert_array_equal(post.stream(square, epilogue=f, x=row), np.broadcast_to(row, (3, 3)))
    np.testing.assert_array_equal(post.stream(square, epilogue=f, x=np.eye(3, dtype=np.float32)), np.eye(3))
    np.testing.assert_array_equal(post.stream(square, epilogue=f, x=5.0), np.full((3, 3), 5))
    np.testing.assert_array_equal(post.stream(square, epilogue=f, x=np.float32(5)), np.full((3, 3), 5))
    batch = np.zeros((2, 3, 3), np.float32)
    rows = np.float32([[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(post.stream(batch, epilogue=f, x=rows), np.broadcast_to(rows[:, None, :], (2, 3, 3)))


def test_casting_plain_arrays_writes_to_none_of_them():
    for dtype in (np.float64, np.float32, np.float16):
        x = np.array([[1.5, -2.75, 300.0]], dtype)
        before = x.copy()
        x.flags.writeable = False
        for to in (post.s8, post.i32, post.bf16, post.bool, post.e4m3):
            for how in (post.Round.up, post.stochastic(3)):
                post.cast(x, to, how)
        np.testing.assert_array_equal(post.cast(x, post.s8), [[2, -3, 127]])
        np.testing.assert_array_equal(x, before)

    @post.epilogue
    def residue(acc):
        quantised = post.cast(acc, post.s8)
        return {"D": quantised, "rest": acc - quantised}

    x = np.array([[1.5, -2.75, 300.0]])
    np.testing.assert_array_equal(residue(x).rest, [[-0.5, 0.25, 173.0]])
    assert post.cast(2.5, post.s8).shape == () and post.cast(np.float64(2.5), post.s8) == 2


def test_casting_plain_integers_is_exact_and_saturates():
    whole, most = 2**53 + 1, 2**63 - 1
    assert post.cast(np.int64([whole, most, -most - 1]), post.i64).tolist() == [whole, most, -most - 1]
    assert post.cast(np.array([np.inf, -np.inf, 2.0**63, 1e300, np.nan]), post.i64).tolist() == [most, -most - 1, most, most, 0]
    assert post.cast(np.int64([whole, 300, -300]), post.s8).tolist() == [127, 127, -128]
    assert post.cast(np.array([True, False]), post.f32).tolist() == [1, 0]
    # To a float type integers go through f32: two roundings, as in the kernels.
    assert post.cast(np.int64([2**24 + 1]), post.f32, post.Round.up).tolist() == [2.0**24]


def test_what_an_epilogue_rebinds_is_written_nowhere():
    @post.epilogue
    def f(acc, bias: post.row):
        d = acc
        d += bias
        d *= 2
        e = post.where(d > 0, d, 0)
        kept = e
        e -= 1
        return {"D": d, "e": e, "kept": kept, "same": acc}

    acc, bias = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    for x, b in ((acc, bias), (acc.astype(np.float64), bias.astype(np.float64))):
        plain, fused = f(x, b), post.stream(acc, epilogue=f, bias=bias)
        for name in fused._fields:
            np.testing.assert_array_equal(getattr(plain, name), getattr(fused, name), name)
            assert type(getattr(plain, name)) is np.ndarray
        plain.same[:] = 7
        assert (x == 1).all() and (b == 1).all()

    @post.epilogue
    def writes(acc):
        acc[acc < 0] = 0
        return acc

    with pytest.raises(post.TextError, match="only names can be assigned to"):
        writes(acc)
    assert (acc == 1).all()
    with pytest.raises(post.OperandError, match="mask"):
        f(np.ma.masked_array(acc, acc > 0), bias)


def test_one_epilogue_calls_another_on_plain_arrays():
    @post.epilogue
    def inner(acc, bias: post.row):
        acc += bias
        return post.relu(acc)

    @post.epilogue
    def outer(acc, bias: post.row):
        d = inner(acc, bias) * 2 + acc
        return d

    x, bias = np.float32([[-3, 1], [0, 2]]), np.float32([1, -1])
    np.testing.assert_array_equal(outer(x, bias), post.stream(x, epilogue=outer, bias=bias))


def test_a_default_stands_in_for_a_missing_operand():
    @post.epilogue
    def f(acc, scale: post.scalar = 2.0):
        return acc * scale

    x = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(post.stream(x, epilogue=f), 2 * x)
    np.testing.assert_array_equal(post.stream(x, epilogue=f, scale=3.0), 3 * x)


def test_the_accumulator_may_stand_anywhere_under_its_name():
    @post.epilogue
    def f(bias: post.row, acc):
        return acc - bias

    assert operands(f) == {"bias": (4, None)}


def test_general_reduction_with_a_lambda():
    @post.epilogue
    def f(acc):
        total, square = post.reduce((acc, acc * acc), combine=lambda a, b, c, d: (a + c, b + d), identity=(0, 0), axis=1)
        return total, square

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = post.stream(x, epilogue=f)
    np.testing.assert_array_equal(out.total, x.sum(1))
    np.testing.assert_array_equal(out.square, (x * x).sum(1))
    reference = f(x)
    np.testing.assert_array_equal(reference.total, x.sum(1))


def test_numpys_own_functions_work_on_values():
    @post.epilogue
    def f(acc):
        return np.exp(-np.maximum(acc, np.float32(0))) * np.float64(2)

    x = np.float32([[-1, 2]])
    np.testing.assert_allclose(post.stream(x, epilogue=f), 2 * np.exp(-np.maximum(x, 0)), rtol=1e-6)


def test_numpys_functions_that_are_functions_of_the_language():
    def ours(acc):
        return {"a": post.sign(acc), "b": post.logaddexp(acc, 1.0), "c": acc % 3, "d": acc * acc, "e": post.clamp(acc, 0, 1),
                "f": post.where(post.isnan(acc) | post.isinf(acc), abs(acc), acc), "g": post.isfinite(acc)}

    def numpys(acc):
        return {"a": np.sign(acc), "b": np.logaddexp(acc, 1.0), "c": np.mod(acc, 3), "d": np.square(acc), "e": np.clip(acc, 0, 1),
                "f": np.where(np.isnan(acc) | np.isinf(acc), np.fabs(acc), np.positive(acc)), "g": np.isfinite(acc)}

    numpys.__name__ = "ours"
    assert str(post.epilogue(numpys)) == str(post.epilogue(ours))


def test_stochastic_rounding_is_written_as_in_the_text():
    @post.epilogue
    def f(acc):
        return post.cast(acc, post.bf16, round=post.stochastic(3)) + post.cast(acc, np.float16)

    assert str(post.parse(str(f)).graph) == str(f)
    assert "round=stochastic(3)" in str(f)
    x = np.full((4, 64), 1.001, np.float32)
    np.testing.assert_array_equal(post.stream(x, epilogue=f), f(x))


@post.epilogue
def importable(acc):
    return acc * 2


def test_pickling():
    assert pickle.loads(pickle.dumps(importable)) is importable
    text = post.parse(str(importable))
    assert str(pickle.loads(pickle.dumps(text))) == str(text)


def test_values_say_what_they_are():
    seen = []
    post.epilogue(lambda acc: seen.append(repr(post.gelu(acc + 1))) or acc + 1).graph
    assert seen == ["<a value of an epilogue: gelu of +>"]


def test_every_row_of_the_op_table_is_a_function_with_documentation():
    from postlude import _core
    for op, spelling, _, elementwise, doc in _core.op_table():
        if elementwise and spelling.isidentifier():
            assert doc in getattr(post, spelling).__doc__, spelling
    for name, doc in _core.reduction_table():
        assert doc in getattr(post, name).__doc__, name
    for name, _, _, native, _ in _core.functions():
        assert native or callable(getattr(post, name)), name
    assert post.leaky_relu(np.float32(-1)) == pytest.approx(-0.01)
    assert post.max(3, 4) == 4
    assert post.exp(0.0) == 1 and math.isinf(post.inf)
