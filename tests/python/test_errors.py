"""Bad input: a typed exception with its code, the user's line and what to do."""
import functools
import linecache
import pickle

import numpy as np
import pytest

import postlude as post
from postlude import te

A = np.ones((4, 3), np.float32)
B = np.ones((3, 5), np.float32)
IMAGE = np.ones((1, 1, 3, 3), np.float32)


def refused(function, kind, code, *words):
    with pytest.raises(kind) as caught:
        function()
    error = caught.value
    assert isinstance(error, post.Error)
    assert error.code == code, str(error)
    assert error.file.endswith("test_errors.py") and error.line > 0, str(error)
    for word in words:
        assert word in str(error), str(error)
    return error


def trace(function):
    return lambda: post.epilogue(function).graph


def test_branch():
    def f(acc):
        if acc > 0:
            return acc
        return -acc

    error = refused(trace(f), post.TextError, "PL0110", "post.where", "if acc > 0")
    assert linecache.getline(__file__, error.line).strip() == "if acc > 0:"
    caret = str(error).splitlines()
    assert caret[1].index("acc > 0") == caret[2].index("^")


def test_chained_comparison():
    refused(trace(lambda acc: post.where(0 < acc < 1, acc, 0)), post.TextError, "PL0110", "chained", "(low < x) & (x < high)")

    def f(acc):
        if 0 < acc < 1:
            return acc
    refused(trace(f), post.TextError, "PL0110", "chained")


@pytest.mark.parametrize("function, words", [
    (lambda acc: post.where((acc > 0) and (acc < 1), acc, 0), ("`and`", "&")),
    (lambda acc: post.where((acc > 0) or (acc < 1), acc, 0), ("`or`", "|")),
    (lambda acc: post.where(not (acc > 0), acc, 0), ("`not`", "~")),
    (lambda acc: max(acc, 0), ("max()", "post.max")),
    (lambda acc: acc if acc > 1 else 0, ("post.where",)),
])
def test_other_branches(function, words):
    refused(trace(function), post.TextError, "PL0110", *words)


def test_math_iteration_length_and_index():
    import math
    refused(trace(lambda acc: math.exp(acc)), post.GraphError, "PL0201", "post.exp")
    refused(trace(lambda acc: sum(acc)), post.TextError, "PL0102", "post.sum", "post.chunk")
    refused(trace(lambda acc: len(acc) * acc), post.TextError, "PL0102")
    refused(trace(lambda acc: acc[0]), post.TextError, "PL0102", "not indexed")
    refused(trace(lambda acc: np.sort(acc)), post.TextError, "PL0102", "sort")


def assigned(acc):
    acc[0] = 1


@pytest.mark.parametrize("function, code, words", [
    (lambda acc: acc.sum(axis=1), "PL0102", ("'sum'", "Write post.sum(x, ...)")),
    (lambda acc: acc.clip(0, 1), "PL0102", ("Write clamp(x, low, high)",)),
    (lambda acc: acc.spam, "PL0102", ("post.row",)),
    (lambda acc: acc @ acc, "PL0102", ("`@`", "comes before the epilogue")),
    (lambda acc: 1 ^ acc, "PL0102", ("`^`", "x ** y")),
    (lambda acc: acc << 1, "PL0102", ("shifts",)),
    (assigned, "PL0102", ("only names",)),
    (lambda acc: divmod(acc, 2), "PL0103", ("divmod", "a // b and a % b")),
    (lambda acc: post.softmax(acc), "PL0103", ("softmax", "three lines")),
    (lambda acc: post.reul(acc), "PL0103", ("Did you mean 'relu'",)),
    (lambda acc: post.cast(acc, post.bf17), "PL0103", ("Did you mean 'bf16'",)),
    (lambda acc: post.cast(acc, np.float64), "PL0107", ("float64", "f32 is the widest float")),
    (lambda acc: post.sum(acc, axes=1), "PL0105", ("'axes'", "post.sum(x, axis=None")),
    (lambda acc: post.exp(y=acc), "PL0105", ("post.exp(x)",)),
    (lambda acc: acc * 2**63, "PL0101", ("out of range", "64 bits")),
    (lambda acc: np.sum(acc), "PL0102", ("numpy's sum", "post.sum")),
    (lambda acc: np.std(acc), "PL0102", ("sqrt(var(x",)),
    (lambda acc: np.trunc(acc), "PL0102", ("numpy's trunc", "post.ops")),
    (lambda acc: round(acc, 2), "PL0102", ("a value alone", "round(x * 100)")),
    (lambda acc: pow(acc, 2, 3), "PL0102", ("modulus", "a ** b % c")),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_python_has_and_the_language_does_not(function, code, words):
    refused(trace(function), post.TextError, code, *words)


@pytest.mark.parametrize("function, words", [
    (lambda acc, s: acc + post.random(s), ("a seed of", "fixed when")),
    (lambda acc, s: acc + post.random(1, s), ("a stream of", "fixed when")),
    (lambda acc, s: post.cast(acc, post.bf16, round=post.stochastic(s)), ("a seed of", "fixed when")),
    (lambda acc, s: post.sum(acc, axis=s), ("there is no axis",)),
    (lambda acc, s: post.chunk(acc, s)[0], ("chunk into", "is an integer")),
    (lambda acc, s: post.sum(acc, axis=1, group=s), ("a group of", "a number of columns")),
    (lambda acc, s: post.sum(acc, 1, True), ("a group of True", "a number of columns")),  # numpy's keepdims
])
def test_what_is_fixed_is_no_value(function, words):
    def f(acc, s: post.scalar):
        return function(acc, s)
    refused(trace(f), post.GraphError, "PL0207", *words)


def test_numbers_of_numpy_are_integers():
    for group in (4, np.int64(4)):
        assert "group=4" in str(post.epilogue(lambda acc: post.sum(acc, axis=1, group=group)).graph)


def test_missing_attributes_are_attribute_errors_too():
    assert not hasattr(post, "softmax") and not hasattr(post, "_repr_html_")
    seen = []
    post.epilogue(lambda acc: seen.append(hasattr(acc, "shape")) or acc + 1).graph
    assert seen == [False]


def test_what_is_no_function():
    refused(lambda: post.epilogue(functools.partial(assigned)), post.UsageError, "PL0701", "partial", "a def or a lambda")


def test_combiners():
    one = dict(identity=(0,), axis=1)
    refused(trace(lambda acc: post.reduce((acc,), lambda a: a, **one)), post.GraphError, "PL0208", "2 parameters", "left values")
    refused(trace(lambda acc: post.reduce((acc,), lambda a, b: (a, b), **one)), post.GraphError, "PL0208", "2 results")
    assert "reduce" in str(post.epilogue(lambda acc: post.reduce(acc, np.maximum, 0, axis=1)).graph)


def test_errors_survive_pickling():
    error = refused(lambda: post.matmul(A, A), post.OperandError, "PL0306")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and (again.code, again.line) == (error.code, error.line)


def test_an_array_in_a_closure():
    bias = np.ones(5, np.float32)
    refused(trace(lambda acc: acc + bias), post.GraphError, "PL0201", "ndarray of shape (5,)", "post.row")
    refused(trace(lambda acc: acc + np.complex64(1)), post.GraphError, "PL0201", "complex")


def test_returned_constant_and_nothing():
    refused(trace(lambda acc: 3.0), post.GraphError, "PL0206", "constant")
    refused(trace(lambda acc: None), post.GraphError, "PL0205", "returns nothing")
    refused(trace(lambda acc: "D"), post.GraphError, "PL0205", "str")
    refused(trace(lambda acc: (acc + 1, acc + 2)), post.GraphError, "PL0205", "has no name")


def test_declarations_of_outputs():
    def wrong(acc):
        D: int = acc
        return D

    def axes(acc):
        D: post.row = acc
        return D

    def bare(acc):
        D: post.f16
        D = acc
        return D

    def branch(acc):
        if A.size:
            D: post.f16 = acc
        else:
            D: post.bf16 = acc
        return D

    refused(trace(wrong), post.TextError, "PL0107", "'int' is not a dtype")
    refused(trace(axes), post.GraphError, "PL0204", "declared row")
    refused(trace(bare), post.TextError, "PL0102", "without a value")
    refused(trace(branch), post.TextError, "PL0102", "depends on a branch", "D: post.bf16 = D")


def test_unused_operand():
    def f(acc, bias: post.row, spare: post.row):
        return acc + bias

    error = refused(trace(f), post.GraphError, "PL0210", "spare")
    assert "spare: post.row" in linecache.getline(__file__, error.line)


def test_names():
    refused(trace(lambda acc: {"not a name": acc}), post.GraphError, "PL0209", "not a name")
    refused(trace(lambda acc: {"a\0b": acc}), post.GraphError, "PL0209")
    refused(trace(lambda acc: {1: acc}), post.GraphError, "PL0209")
    refused(trace(lambda acc: {"A": acc}), post.GraphError, "PL0209")


def test_missing_axis_and_wrong_arguments():
    refused(trace(lambda acc: post.sum(post.sum(acc, axis=1), axis=1)), post.GraphError, "PL0203")
    refused(trace(lambda acc: post.sum(acc, axis=2)), post.GraphError, "PL0207", "axis")
    refused(trace(lambda acc: post.exp(acc, acc)), post.TextError, "PL0105", "post.exp")
    refused(trace(lambda acc: post.gelu()), post.TextError, "PL0105")
    refused(trace(lambda acc: post.cast(acc, "f12")), post.TextError, "PL0107")


def test_values_of_another_epilogue():
    kept = []

    @post.epilogue
    def first(acc):
        kept.append(acc * 2)
        return kept[0]

    first.graph
    refused(trace(lambda acc: acc + kept[0]), post.GraphError, "PL0211")


def test_parameters():
    def star(acc, *rest):
        return acc

    def wrong(acc, x: int):
        return acc + x

    refused(trace(star), post.TextError, "PL0102")
    refused(trace(wrong), post.TextError, "PL0107", "post.row")
    refused(trace(lambda acc, out: acc + out), post.GraphError, "PL0209", "keyword of post.matmul")
    refused(lambda: post.parse("def f(acc, out: row):\n    return acc + out\n"), post.GraphError, "PL0209", "keyword of post.matmul")
    refused(trace(lambda: 1), post.TextError, "PL0105", "accumulator")


def test_recursion():
    def f(acc):
        return f(acc)
    refused(trace(f), post.TextError, "PL0106")


class Odd:
    def __float__(self):
        raise TypeError


@post.epilogue
def bias_relu(acc, bias: post.row):
    return post.relu(acc + bias)


@pytest.mark.parametrize("call, kind, code, words", [
    (lambda: post.matmul(A, B, epilogue=bias_relu), post.OperandError, "PL0301", ("bias",)),
    (lambda: post.matmul(A, B, epilogue=bias_relu, bais=B[0]), post.OperandError, "PL0303", ("bais", "Did you mean 'bias'")),
    (lambda: post.matmul(A, B, eplogue=bias_relu, bias=B[0]), post.OperandError, "PL0303", ("Did you mean 'epilogue'",)),
    (lambda: post.plan(A, B, epilogue=bias_relu, bais=B[0]), post.OperandError, "PL0303", ("bais", "Did you mean 'bias'")),
    (lambda: post.matmul(A, B, epilogue=bias_relu, bias=B[:, :1]), post.OperandError, "PL0304", ("bias", "plan wants N")),
    (lambda: post.matmul(A, B, epilogue=bias_relu, bias=Odd()), post.OperandError, "PL0305", ("'bias' is a Odd",)),
    (lambda: post.matmul(A, B, epilogue=bias_relu, bias=1j), post.OperandError, "PL0305", ("complex",)),
    (lambda: post.matmul(np.ma.masked_less(A, 2), B), post.OperandError, "PL0305", ("mask", ".filled(")),
    (lambda: post.matmul(A, np.ones((5, 3), np.float32)), post.OperandError, "PL0306", ("B.T",)),
    (lambda: post.matmul(A, post.plan(A, B).pack(B)), post.UsageError, "PL0701", ("plan.bind",)),
    (lambda: post.plan(A, B, target="sm_90a").bind(A, B), post.OperandError, "PL0308", ("sm_90a",)),
    (lambda: post.matmul(A, B, epilogue=bias_relu, bias=B[0], bais=B[0]), post.OperandError, "PL0303", ("bais", "Did you mean 'bias'")),
    (lambda: post.matmul(A, B, epilogue=bias_relu, bias=A), post.OperandError, "PL0304", ("bias",)),
    (lambda: post.matmul(A, B, epilogue=bias_relu, bias=np.ones(4, np.float32)), post.OperandError, "PL0306", ("bias",)),
    (lambda: post.matmul(A, A), post.OperandError, "PL0306", ("B",)),
    (lambda: post.matmul(A[0], B), post.OperandError, "PL0304", ("A",)),
    (lambda: post.matmul(A.astype(np.float64), B), post.OperandError, "PL0305", ("float64", "astype")),
    (lambda: post.matmul(A.astype(np.complex64), B), post.OperandError, "PL0305", ("complex64",)),
    (lambda: post.matmul(A.astype(">f4"), B), post.OperandError, "PL0305", ("other order",)),
    (lambda: post.matmul([[1.0]], B), post.OperandError, "PL0305", ("list",)),
    (lambda: post.matmul(A, B.astype(np.int8)), post.UnsupportedError, "PL0401", ()),
    (lambda: post.matmul(A, B, out=np.ones((4, 4), np.float32)), post.OperandError, "PL0306", ("D",)),
    (lambda: post.matmul(A, B, out={"E": np.ones((4, 5), np.float32)}), post.OperandError, "PL0303", ("E",)),
    (lambda: post.matmul(A, B, out={"E": None}), post.OperandError, "PL0303", ("'E'", "The outputs are: D.")),
    (lambda: post.matmul(A, B, out={"D": None, "E": None}), post.OperandError, "PL0303", ("'E'", "The outputs are: D.")),
    (lambda: post.stream(A, epilogue=bias_relu, bias=B[0], out={"E": None}), post.OperandError, "PL0303", ("'E'",)),
    (lambda: post.plan(A, B).bind(A, B, out={"E": None}), post.OperandError, "PL0303", ("'E'",)),
    (lambda: post.plan(A, B).verify(A, B, out={"E": None}), post.OperandError, "PL0303", ("'E'",)),
    (lambda: post.conv2d(IMAGE, IMAGE, out={"E": None}), post.OperandError, "PL0303", ("'E'",)),
    (lambda: post.plan(A, B, dtypes={"E": None}), post.OperandError, "PL0305", ("E",)),
    (lambda: post.matmul(A, B, out={"": np.ones((4, 5), np.float32)}), post.UsageError, "PL0701", ("the key ''",)),
    (lambda: post.matmul(A, B, bias=None), post.OperandError, "PL0303", ("'bias'",)),
    (lambda: post.plan(A, B, bias=None), post.OperandError, "PL0303", ("'bias'",)),
    (lambda: post.plan(A, B).bind(A, B, bias=None), post.OperandError, "PL0303", ("'bias'",)),
    (lambda: post.conv2d(IMAGE, IMAGE, bias=None), post.OperandError, "PL0303", ("'bias'",)),
    (lambda: te.epilogue(te.placeholder((4, 5), name="A"), post.epilogue(lambda acc: acc + 1), bias=None), post.OperandError, "PL0303", ("'bias'",)),
    (lambda: post.matmul(A, B, out=(None, None)), post.OperandError, "PL0303", ("out=",)),
    (lambda: post.matmul(A, B, epilogue=lambda acc: acc), post.UsageError, "PL0701", ("@post.epilogue",)),
    (lambda: post.matmul(A, B, target="tpu"), post.UsageError, "PL0701", ("tpu",)),
    (lambda: post.stream(A, epilogue=post.epilogue(lambda acc: acc + post.nan), out=np.ones((4, 3))), post.OperandError, "PL0305", ("float64",)),
    (lambda: post.plan(post.f32, post.f32, epilogue=bias_relu).bind(A), post.OperandError, "PL0301", ("B",)),
    (lambda: post.plan(post.f32, post.f32, epilogue=bias_relu).explain("nothing"), post.UsageError, "PL0701", ("summary",)),
    (lambda: post.plan("f33", post.f32), post.TextError, "PL0107", ("f33",)),
    (lambda: post.load("/nowhere.py"), post.FileError, "PL0601", ("nowhere",)),
    (lambda: post.matmul(A, B, out={1: A}), post.UsageError, "PL0701", ("out=", "the key 1")),
    (lambda: post.concat(()), post.TextError, "PL0105", ("concat of nothing",)),
    (lambda: post.epilogue(lambda acc: post.concat(acc)).graph, post.TextError, "PL0105", ("concat of a",)),
    (lambda: post.epilogue(lambda acc: acc + post.random("7")).graph, post.GraphError, "PL0207", ("a seed of '7'",)),
    (lambda: post.epilogue(lambda acc: acc + post.random(1.5)).graph, post.GraphError, "PL0207", ("a seed of 1.5",)),
    (lambda: post.epilogue(lambda acc: post.cast(acc, post.s8, post.stochastic(None))).graph, post.GraphError, "PL0207", ("a seed of None",)),
    (lambda: post.epilogue(lambda acc: post.chunk(acc, None)[0]).graph, post.GraphError, "PL0207", ("chunk into None pieces",)),
    (lambda: post.reduce((), combine=lambda: (), identity=()), post.TextError, "PL0105", ("no values",)),
    (lambda: post.plan(A, B).shape_of("D", 2**70, 1), post.UsageError, "PL0701", ("64 bits",)),
    (lambda: post.plan(A, B).shape_of("D", -1, 1), post.UsageError, "PL0701", ("negative",)),
    (lambda: post.plan(A, B).explain("summary", 2**70, 1, 1), post.UsageError, "PL0701", ("64 bits",)),
    (lambda: post.epilogue(lambda acc: post.sum(acc, axis=1, group=2**70)).graph, post.UsageError, "PL0701", ("64 bits",)),
    (lambda: post.epilogue(lambda acc: post.chunk(acc, 2**70)[0]).graph, post.UsageError, "PL0701", ("64 bits",)),
    (lambda: post.epilogue(lambda acc: post.repeat(acc, 2**70)).graph, post.UsageError, "PL0701", ("64 bits",)),
    (lambda: post.m_index(), post.UsageError, "PL0701", ("m_index",)),
    (lambda: post.p_index(), post.UsageError, "PL0701", ("p_index",)),
], ids=lambda value: value if isinstance(value, str) and value.startswith("PL") else "")
def test_calls(call, kind, code, words):
    refused(call, kind, code, *words)


def fast():
    target = post.Target.cuda(isa="sm_90a")
    target.accumulate = "fast"
    return target


def loops(read):
    x = te.placeholder((4, 5), name="x")
    return lambda: te.compute((4, 5), lambda i, j: read(x, i, j), name="y")


IMAGES, FILTERS, LINES = (np.ones((2,) * axes, np.float32) for axes in (4, 4, 3))


# The first line says what is wrong, the last one what to do.
@pytest.mark.parametrize("call, wrong, hint", [
    (lambda: post.matmul(A, B, bias_relu, B[0]), "post.matmul takes a and b by position, not 4 arguments", "epilogue=f, bias=bias"),
    (lambda: post.stream(A, B, epilogue=bias_relu), "post.stream takes x by position, not 2 arguments", "post.stream(x, epilogue=f"),
    (lambda: post.plan(A, B, bias_relu), "post.plan takes a and b by position, not 3 arguments", "epilogue=f"),
    (lambda: post.conv2d(IMAGES, FILTERS, B[0]), "post.conv2d takes x and w by position, not 3 arguments", "post.conv2d(x, w, epilogue=f"),
    (lambda: post.matmul(A, B, target=0), "PL0701: target=0 is no target", "'sm_90a'"),
    (lambda: post.matmul(A, B, epilogue=post.EpilogueVisitTree), "epilogue= is the class 'EpilogueVisitTree' itself", "an instance"),
    (lambda: post.matmul(np.ones((2, 4, 3), np.float32), np.ones((5, 3, 5), np.float32)), "fixes the batch to 2", "shared by all batches"),
    (lambda: post.plan(A, B, target=fast()), 'only fp8 is accumulated "fast", and nothing is fp8 here; leave it out', ""),
    (lambda: post.conv2d(IMAGES, FILTERS, stride="2"), "stride='2' is no stride", "one for each of the 2 axes"),
    (lambda: post.conv2d(IMAGES, FILTERS, padding="full"), "padding='full' is no padding", '"same"'),
    (lambda: post.conv2d(IMAGES, FILTERS, layout="HWCN"), "layout='HWCN' is no layout", '"nhwc"'),
    (lambda: post.conv1d(IMAGES, FILTERS), "x has 4 axes and w 4, but conv1d takes 3 of each", "Those of 4 axes are conv2d's."),
    (lambda: post.conv2d(LINES, FILTERS), "x has 3 axes and w 4, but conv2d takes 4 of each", "Those of 3 axes are conv1d's."),
    (lambda: post.conv2d(IMAGES, FILTERS, out=np.ones((2, 2, 3, 1), np.float32)), "but the pixels of the output are (1, 1)", '"nhwc" with the channels last'),
    (trace(lambda acc: acc.astype(post.f16)), "values have no attribute 'astype'", "cast(x, dtype)"),
    (trace(lambda acc: acc.T), "values have no attribute 'T'", "the product of B.T and A.T"),
    (trace(lambda acc: acc * acc.shape[1]), "values have no attribute 'shape'", "Extents are not values"),
    (trace(lambda acc: np.matmul(acc, acc)), "numpy's matmul does not take a value", "comes before the epilogue"),
    (trace(lambda acc: post.reduce(acc, combine=max, identity=0, axis=1)), "the combiner is Python's own max()", "combine=post.max"),
    (trace(lambda acc: post.random()), "missing a required argument: 'seed'", "Write post.random(seed, stream=0)."),
    (lambda: post.float32, "postlude has no 'float32'", "Write post.f32."),
    (lambda: post.float64, "postlude has no 'float64'", "f32 is the widest float"),
    (lambda: post.NDArray["tensor"], "NDArray['tensor'] names no class and dtype", "post.NDArray['tensor', 'float32']"),
    (lambda: post.NDArray["vector", "float32"], "NDArray['vector', 'float32'] names no class and dtype", "'tensor'"),
    (trace(lambda acc: post.reduction_op(acc, "row", "Sum", 4)), "reduction_op knows no 'row' with 'Sum'", '"Max"'),
    (trace(lambda acc: post.cast(acc)), "missing a required argument: 'dtype'", "Write post.cast(x, dtype, round=post.Round.nearest_even, seed=0)."),
    (loops(lambda x, i, j: post.relu(x[i, j])), "a function of epilogues does not take what loops compute", "te.relu"),
    (loops(lambda x, i, j: te.exp(x)), "'x' is a tensor, and operations are of its elements", "A[i, k]"),
    (loops(lambda x, i, j: sum(x[i, j])), "x[i, j] is one number, and is not iterated over", "te.sum(x, axis=k)"),
    (loops(lambda x, i, j: te.sum(x[i, j])), "sum: no axis is reduced", "te.sum(x, axis=k)"),
    (loops(lambda x, i, j: te.select(x[i, j], 1, 0)), "postlude.te has no 'select'", "where(condition, a, b)"),
], ids=lambda value: "")
def test_what_is_wrong_and_what_to_do(call, wrong, hint):
    with pytest.raises(post.Error) as caught:
        call()
    lines = str(caught.value).splitlines()
    assert wrong in lines[0] and hint in lines[-1], str(caught.value)


def test_read_only_and_overlapping_outputs():
    frozen = np.ones((4, 5), np.float32)
    frozen.flags.writeable = False
    refused(lambda: post.matmul(A, B, out=frozen), post.UsageError, "PL0701", "read-only")
    x = np.ones((4, 6), np.float32)
    shifted = post.epilogue(lambda acc, r: acc + r)
    refused(lambda: post.matmul(A, B, epilogue=shifted, r=x[:, 1:], out=x[:, :5]), post.OperandError, "PL0309")


@pytest.mark.parametrize("text", ["random(-1)", "cast(acc, s8, stochastic(-1))"])
def test_a_negative_seed(text):
    with pytest.raises(post.GraphError, match="PL0207.*a seed is -1"):
        post.parse(f"def f(acc): return {text}")


def test_text_says_where():
    with pytest.raises(post.TextError) as caught:
        post.parse("def f(acc, bias: row):\n    return acc + bais\n")
    assert (caught.value.line, caught.value.column) == (2, 18)
    assert "Did you mean 'bias'" in str(caught.value)


def test_texts_and_paths_that_are_not_utf8(tmp_path):
    path = tmp_path / "latin1.py"
    path.write_bytes(b"def f(acc):\n    return acc  # na\xefve\n")
    with pytest.raises(post.TextError, match="PL0101: the text is not UTF-8") as caught:
        post.load(path)
    assert (caught.value.file, caught.value.line, caught.value.column) == (str(path), 2, 21)
    refused(lambda: post.load(tmp_path / "\ud800.py"), post.FileError, "PL0601", "ud800")
    refused(lambda: post.load(tmp_path / "\udcff.py"), post.FileError, "PL0601", "cannot read")  # a file may be called so
    refused(lambda: post.parse("def f(acc):\n    return acc  # \ud800\n"), post.TextError, "PL0101", "surrogate", "31")
    text = "def f(acc):\n    return acc\n"
    for given in (b"def f(acc): return acc", 5, None):
        refused(lambda given=given: post.parse(given), post.UsageError, "PL0701", type(given).__name__)
    refused(lambda: post.parse(text, "\ud800"), post.TextError, "PL0109", "ud800")
    a = np.ones((2, 2), np.float32)
    refused(lambda: post.matmul(a, a, epilogue=post.parse(text), target="\ud800"), post.UsageError, "PL0701", "ud800")
    refused(lambda: post.matmul(a, a, epilogue=post.parse(text), **{"\ud800": a}), post.OperandError, "PL0303", "ud800")
    refused(lambda: post.matmul(a, a, epilogue=post.parse(text), out={"\ud800": a}), post.OperandError, "PL0303", "ud800")
    refused(lambda: post.plan("\ud800", post.f32), post.TextError, "PL0107", "ud800")
    refused(lambda: post.plan(a, a, epilogue=post.parse(text), dtypes={"\ud800": post.f32}), post.OperandError, "PL0303", "ud800")

    @post.epilogue
    def named_so(acc):
        return {"\ud800": acc}

    refused(lambda: post.matmul(a, a, epilogue=named_so), post.GraphError, "PL0209", "ud800")
    for interface in ({"data": None}, {"shape": "x"}, {"shape": (-4, 5)}, {"shape": (2**70, 5)}, {"typestr": "\ud800"}, 5):
        class Malformed:
            __array_interface__ = {**a.__array_interface__, **interface} if isinstance(interface, dict) else interface
        refused(lambda: post.matmul(Malformed(), a), post.OperandError, "PL0305", "numpy")
    named = tmp_path / "\udcff.py"
    try:
        named.write_text("def f(acc):\n    return acc + 1\n")
    except OSError:
        return  # this file system has no such names
    assert post.load(named).name == "f"


def test_text_is_data(tmp_path):
    mark = tmp_path / "mark"
    with pytest.raises(post.Error):
        post.parse(f"def f(acc):\n    open({str(mark)!r}, 'w')\n    return acc\n")
    assert not mark.exists()


def test_nothing_is_written_when_a_call_is_refused():
    out = np.full((4, 5), 7, np.float32)
    with pytest.raises(post.Error):
        post.matmul(A, B, epilogue=bias_relu, bias=np.ones(9, np.float32), out=out)
    assert (out == 7).all()


def test_every_error_has_a_class():
    from postlude import _core, errors
    for number, name, _ in _core.error_table():
        assert type(errors.error(name, "m")).__mro__[1] is post.Error
