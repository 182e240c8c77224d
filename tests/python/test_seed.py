"""The functions of the epilogue visitor tree (docs/seed_visitor_tree.md): each body as it stands there, decorated."""
import dataclasses
import pickle

import numpy as np
import pytest

import postlude as post
from postlude import NDArray, leaky_relu, reduction_op, tanh

M, N, K, LENGTH = 70, 300, 40, 128


@pytest.fixture
def arrays(rng):
    return {"a": rng.standard_normal((M, K)).astype(np.float32), "b": rng.standard_normal((K, N)).astype(np.float32),
            "c": rng.standard_normal((M, N)).astype(np.float32), "vector": rng.standard_normal(M).astype(np.float32)}


def partial_sums(x, length):
    return np.stack([x[:, j:j + length].sum(1) for j in range(0, x.shape[1], length)], axis=1)


def lrelu(x, slope):
    return np.where(x >= 0, x, slope * x)


def test_unary(arrays):
    @post.epilogue
    def UnaryEpilogue_(
        accum: 'tensor', c: 'tensor',
        alpha: 'scalar', beta: 'scalar'):
        #
        T = leaky_relu.numpy(accum, 0.2)
        Z = alpha * T + beta * c
        return Z

    out = post.matmul(arrays["a"], arrays["b"], epilogue=UnaryEpilogue_, c=arrays["c"], alpha=1.5, beta=0.5)
    expected = 1.5 * lrelu(arrays["a"] @ arrays["b"], 0.2) + 0.5 * arrays["c"]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_column_broadcast(arrays):
    @post.epilogue
    def ColumnBroadcast_(
        accum: 'tensor', c: 'tensor',
        vector: 'column', alpha: 'scalar', beta: 'scalar'):
        #
        T = accum + vector
        scale_T = leaky_relu.numpy(alpha * T, 0.2)
        Z = scale_T + beta * c
        return Z, T

    out = post.matmul(arrays["a"], arrays["b"], epilogue=ColumnBroadcast_, c=arrays["c"], vector=arrays["vector"],
                      alpha=1.5, beta=0.5)
    t = arrays["a"] @ arrays["b"] + arrays["vector"][:, None]
    np.testing.assert_allclose(out.T, t, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out.Z, lrelu(1.5 * t, 0.2) + 0.5 * arrays["c"], rtol=1e-4, atol=1e-4)


class args:
    threadblock_shape = [64, LENGTH, 32]


def test_row_reduction(arrays):
    @post.epilogue
    def RowReduction_(
        accum: 'tensor', c: 'tensor',
        alpha: 'scalar', beta: 'scalar'):
        #
        D = alpha * accum + tanh.numpy(beta * c)
        reduction = reduction_op(D, "row", "Add", args.threadblock_shape[1])
        return D, reduction

    out = post.matmul(arrays["a"], arrays["b"], epilogue=RowReduction_, c=arrays["c"], alpha=1.5, beta=0.5)
    d = 1.5 * (arrays["a"] @ arrays["b"]) + np.tanh(0.5 * arrays["c"])
    np.testing.assert_allclose(out.D, d, rtol=1e-4, atol=1e-4)
    assert out.reduction.shape == (M, (N + LENGTH - 1) // LENGTH)
    np.testing.assert_allclose(out.reduction, partial_sums(d, LENGTH), rtol=1e-3, atol=1e-3)
    plain = RowReduction_(arrays["a"] @ arrays["b"], c=arrays["c"], alpha=1.5, beta=0.5)
    np.testing.assert_allclose(plain.reduction, out.reduction, rtol=1e-3, atol=1e-3)


def test_column_reduction(arrays):
    @post.epilogue
    def f(accum: 'tensor'):
        D = accum * 2
        reduction = reduction_op(D, "column", "Max", 32)
        return D, reduction

    out = post.matmul(arrays["a"], arrays["b"], epilogue=f)
    assert out.reduction.shape == ((M + 31) // 32, N)
    np.testing.assert_array_equal(out.reduction, np.stack([out.D[i:i + 32].max(0) for i in range(0, M, 32)]))


def test_the_third_step_with_its_annotations(arrays):
    @post.epilogue
    def RowReduction_(
        accum: NDArray['tensor', 'float32'], c: NDArray['tensor', 'float32'],
        alpha: 'float32', beta: 'float32'):
        #
        D = alpha * accum + tanh.numpy(beta * c)
        reduction = reduction_op(D, "row", "Add", args.threadblock_shape[1])
        return D, reduction

    out = post.matmul(arrays["a"], arrays["b"], epilogue=RowReduction_, c=arrays["c"], alpha=1.0, beta=1.0)
    np.testing.assert_allclose(out.D, arrays["a"] @ arrays["b"] + np.tanh(arrays["c"]), rtol=1e-4, atol=1e-4)


def test_what_that_document_forbids_works_here(arrays):
    """A reduction of an expression, used again in the epilogue; a node used by two operations is computed once."""
    @post.epilogue
    def f(accum: 'tensor', c: 'tensor'):
        t = post.exp(accum * 0.1)
        total = post.sum(t + c, axis=1)
        D = t / total
        return D

    out = post.matmul(arrays["a"], arrays["b"], epilogue=f, c=abs(arrays["c"]))
    t = np.exp(0.1 * (arrays["a"] @ arrays["b"]))
    np.testing.assert_allclose(out, t / (t + abs(arrays["c"])).sum(1, keepdims=True), rtol=1e-4)


# The class form, as the document has it.

epilogue_functor = tile_description = element_epilogue = None  # what its constructor took means nothing here


class UnaryEpilogue_(post.EpilogueVisitTree):
    def __call__(
        self, accum: 'tensor', c: 'tensor',
        alpha: 'scalar', beta: 'scalar'):
        #
        T = leaky_relu.numpy(accum, 0.2)
        Z = alpha * T + beta * c
        return Z


class RowReduction_(post.EpilogueVisitTree):
    def __call__(
        self, accum: NDArray['tensor', 'float32'], c: NDArray['tensor', 'float32'],
        alpha: 'float32', beta: 'float32'):
        #
        D = alpha * accum + tanh.numpy(beta * c)
        reduction = reduction_op(D, "row", "Add", args.threadblock_shape[1])
        return D, reduction


class Leaky(post.EpilogueVisitTree):
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, accum, bias: 'row'):
        z = accum + bias
        D = post.leaky_relu(z, self.slope)
        return D


@dataclasses.dataclass
class Power(post.EpilogueVisitTree):
    exponent: int
    scale: float = 1.0

    def __call__(self, accum, c: 'tensor'):
        D = self.scale * (accum + c) ** self.exponent
        return D


class Twice(Leaky):
    def __call__(self, accum, bias: 'row'):
        D = 2 * super().__call__(accum, bias)
        return D


def test_classes(arrays):
    functor = UnaryEpilogue_(epilogue_functor, tile_description, np.float32, 8, element_epilogue, np.float32)
    functor.initialize()
    product = arrays["a"] @ arrays["b"]
    out = post.matmul(arrays["a"], arrays["b"], epilogue=functor, c=arrays["c"], alpha=1.5, beta=0.5)
    np.testing.assert_allclose(out, 1.5 * lrelu(product, 0.2) + 0.5 * arrays["c"], rtol=1e-4, atol=1e-4)
    assert str(functor.graph_of((6, 6, 0, 0))).startswith("def UnaryEpilogue_(")
    np.testing.assert_allclose(functor(product, arrays["c"], 1.5, 0.5), out, rtol=1e-4, atol=1e-4)

    out = post.matmul(arrays["a"], arrays["b"], epilogue=RowReduction_(), c=arrays["c"], alpha=1.5, beta=0.5)
    d = 1.5 * product + np.tanh(0.5 * arrays["c"])
    np.testing.assert_allclose(out.D, d, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(out.reduction, partial_sums(d, LENGTH), rtol=1e-3, atol=1e-3)
    assert type(out).__name__ == "RowReduction__result"


def test_a_class_has_constants_and_a_base(arrays):
    row = arrays["c"][0]
    z = arrays["a"] @ arrays["b"] + row
    for made, factor in [(Leaky(0.1), 1), (Leaky(0.3), 1), (Twice(slope=0.3), 2)]:
        expected = factor * lrelu(z, made.slope)
        out = post.matmul(arrays["a"], arrays["b"], epilogue=made, bias=row)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(made(z - row, row), expected, rtol=1e-4, atol=1e-4)
        again = pickle.loads(pickle.dumps(made))
        assert again.slope == made.slope and str(again.graph) == str(made.graph)


def test_a_dataclass(arrays):
    made = Power(2, scale=0.5)
    expected = 0.5 * (arrays["a"] @ arrays["b"] + arrays["c"]) ** 2
    out = post.matmul(arrays["a"], arrays["b"], epilogue=made, c=arrays["c"])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_class_within_another_epilogue(arrays):
    leaky = Leaky(0.5)

    @post.epilogue
    def f(acc, bias: 'row'):
        return leaky(acc, bias) + 1

    out = post.matmul(arrays["a"], arrays["b"], epilogue=f, bias=arrays["c"][0])
    np.testing.assert_allclose(out, lrelu(arrays["a"] @ arrays["b"] + arrays["c"][0], 0.5) + 1, rtol=1e-4, atol=1e-4)


def test_classes_that_say_too_little():
    class Nothing(post.EpilogueVisitTree):
        pass

    class Lost(post.EpilogueVisitTree):
        def __call__(self):
            return 1

    class Waits(post.EpilogueVisitTree):
        def __call__(self, accum):
            yield accum

    for wrong, code, words in [(Nothing, "PL0701", "the class 'Nothing' has no __call__"),
                               (post.EpilogueVisitTree, "PL0701", "has no __call__"),
                               (Lost, "PL0105", "'Lost' has no parameter"),
                               (Waits, "PL0102", "'Waits' is a generator")]:
        with pytest.raises(post.Error, match=words) as caught:
            wrong()
        assert caught.value.code == code
