"""post.matmul and post.stream on numpy arrays, over shapes, dtypes and strides."""
import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st

import postlude as post

ml_dtypes = pytest.importorskip("ml_dtypes")

KINDS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn,
         "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8}
extents = st.sampled_from([1, 2, 3, 7, 16, 31, 33, 64, 65, 129])


@post.epilogue
def bias_relu(acc, bias: post.row[post.f32], scale: post.scalar):
    d = post.max(acc * scale + bias, 0)
    return {"D": d, "amax": post.max(d, axis=1)}


def drawn(rng, kind, shape):
    """Small integers: every product and sum is exact, in every dtype."""
    low = 0 if kind == "u8" else -4
    return rng.integers(low, 5, shape).astype(np.float32).astype(KINDS[kind])


@given(m=extents, n=extents, k=st.sampled_from([0, 1, 2, 5, 16, 40, 100]), kind=st.sampled_from(sorted(KINDS)),
       seed=st.integers(0, 1000), transposed=st.booleans(), step=st.sampled_from([1, 2, -1]))
def test_exact_against_numpy(m, n, k, kind, seed, transposed, step):
    rng = np.random.default_rng(seed)
    a = drawn(rng, kind, (m, 2 * k if abs(step) == 2 else k))[:, ::step]
    b = drawn(rng, kind, (n, k)).T if transposed else drawn(rng, kind, (k, n))
    bias = rng.integers(-8, 8, n).astype(np.float32)
    out = post.matmul(a, b, epilogue=bias_relu, bias=bias, scale=0.5)
    expected = np.maximum(0.5 * (a.astype(np.float64) @ b.astype(np.float64)) + bias, 0)
    wanted = np.float32 if kind in ("s8", "u8") else KINDS[kind]
    assert out.D.dtype == wanted and out.amax.dtype == np.float32
    with np.errstate(all="ignore"):
        clipped = np.clip(expected, None, {"e4m3": 448, "e5m2": 57344}.get(kind, np.inf))
        np.testing.assert_array_equal(out.D.astype(np.float64), clipped.astype(wanted).astype(np.float64))
    np.testing.assert_array_equal(out.amax, expected.max(1))


@given(m=extents, n=extents, batch=st.integers(1, 4), shared=st.sampled_from(["", "a", "b"]), seed=st.integers(0, 100))
def test_batches(m, n, batch, shared, seed):
    rng = np.random.default_rng(seed)
    k = 12
    a = drawn(rng, "f32", (m, k) if shared == "a" else (batch, m, k))
    b = drawn(rng, "f32", (k, n) if shared == "b" else (batch, k, n))
    bias = drawn(rng, "f32", n)
    out = post.matmul(a, b, epilogue=bias_relu, bias=bias, scale=1)
    expected = np.maximum(a @ b + bias, 0)
    assert out.D.shape == (batch, m, n) and out.amax.shape == (batch, m)
    np.testing.assert_array_equal(out.D, expected)
    np.testing.assert_array_equal(out.amax, expected.max(-1))


def test_the_plain_product():
    a, b = np.eye(3, dtype=np.float32), np.arange(9, dtype=np.float32).reshape(3, 3)
    np.testing.assert_array_equal(post.matmul(a, b), b)


def test_batch_reduction(rng):
    @post.epilogue
    def f(acc):
        total = post.sum(acc, axis=0, batch=True)
        return total

    x = drawn(rng, "f32", (3, 5, 7))
    np.testing.assert_array_equal(post.stream(x, epilogue=f), x.sum((0, 1)))
    np.testing.assert_array_equal(f(x), x.sum((0, 1)))
    assert f(x[:1]).shape == (7,)


def test_logical_statistics_in_groups_are_bool(rng):
    f = post.epilogue(lambda acc: post.any(acc > 2, axis=1, group=2))
    x = drawn(rng, "f32", (5, 7))
    assert post.stream(x, epilogue=f).dtype == f(x).dtype == np.bool_
    np.testing.assert_array_equal(post.stream(x, epilogue=f), f(x))


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
def test_empty(shape):
    @post.epilogue
    def f(acc):
        D = acc + 1
        top = post.max(acc, axis=1)
        return D, top

    out = post.matmul(np.ones((shape[0], 3), np.float32), np.ones((3, shape[1]), np.float32), epilogue=f)
    assert out.D.shape == shape and out.top.shape == (shape[0],)
    assert (out.top == -np.inf).all()


def test_out_and_in_place(rng):
    a, b = drawn(rng, "f32", (8, 3)), drawn(rng, "f32", (3, 6))
    f = post.epilogue(lambda acc, r: acc + r)
    r = drawn(rng, "f32", (8, 6))
    expected = a @ b + r
    assert post.matmul(a, b, epilogue=f, r=r, out=r) is r
    np.testing.assert_array_equal(r, expected)

    target = np.zeros((8, 12), np.float32)
    amax = np.zeros(8, np.float32)
    bias = np.zeros(6, np.float32)
    out = post.matmul(a, b, epilogue=bias_relu, bias=bias, scale=1, out={"D": target[:, ::2], "amax": amax})
    assert out.amax is amax
    np.testing.assert_array_equal(target[:, ::2], np.maximum(a @ b, 0))
    assert (target[:, 1::2] == 0).all()
    out = post.matmul(a, b, epilogue=bias_relu, bias=bias, scale=1, out=(None, amax))
    assert out.amax is amax and out.D.shape == (8, 6)


def test_the_dtype_of_out_decides_where_the_epilogue_does_not():
    a = np.full((2, 2), 1.00390625, np.float32)
    out = np.zeros((2, 2), ml_dtypes.bfloat16)
    post.stream(a, epilogue=post.epilogue(lambda acc: acc * 1), out=out)
    assert out.dtype == ml_dtypes.bfloat16 and float(out[0, 0]) == 1.0


def test_dtypes_of_operands_that_are_left_open(rng):
    f = post.epilogue(lambda acc, r: acc + r)
    x = drawn(rng, "f32", (4, 4))
    for kind in ("f32", "f16", "bf16", "s8"):
        r = drawn(rng, kind, (4, 4))
        np.testing.assert_array_equal(post.stream(x, epilogue=f, r=r), x + r.astype(np.float32))


@pytest.mark.parametrize("dtype, number, expected", [
    ("i32", 2.9, 3), ("i32", 2**31, 2**31 - 1), ("i32", 2**40, 2**31 - 1), ("i64", 2**63, 2**63 - 1), ("i64", np.int64(2**53 + 1), 2**53 + 1),
    ("u8", 3.7, 4), ("u8", -1, 0), ("s8", 300, 127), ("e4m3", 1000.0, 448), ("f32", 10**400, np.inf), ("i32", np.nan, 0)])
def test_a_number_is_converted_as_the_language_does(dtype, number, expected):
    @post.epilogue
    def f(acc, s: post.scalar[getattr(post, dtype)]):
        return post.max(s + post.n_index(), axis=1)

    assert post.stream(np.zeros((1, 1), np.float32), epilogue=f, s=number) == expected


def test_buffers_and_array_interface(rng):
    x = drawn(rng, "f32", (3, 4))

    class Foreign:
        __array_interface__ = x.__array_interface__

    np.testing.assert_array_equal(post.stream(Foreign(), epilogue=post.epilogue(lambda acc: acc * 2)), 2 * x)
    np.testing.assert_array_equal(post.stream(memoryview(x), epilogue=post.epilogue(lambda acc: acc * 2)), 2 * x)


def test_threads_share_plans_and_the_gil_is_released():
    """Another Python thread counts while a product is computed."""
    n = 700
    a = np.ones((n, n), np.float32)
    counted = 0
    stop = threading.Event()

    def count():
        nonlocal counted
        while not stop.is_set():
            counted += 1

    counter = threading.Thread(target=count)
    call = post.plan(post.f32, post.f32, target=post.Target.cpu(threads=1)).bind(a, a)
    call()
    counter.start()
    before = counted
    for _ in range(5):
        call()
    during = counted - before
    stop.set()
    counter.join()
    assert during > 100

    f = post.epilogue(lambda acc, s: post.tanh(acc * s))
    results = {}

    def work(i):
        x = np.full((20, 20), i, np.float32)
        for _ in range(20):
            results[i] = post.stream(x, epilogue=f, s=0.1)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for i in range(4):
        np.testing.assert_allclose(results[i], np.tanh(0.1 * i), rtol=1e-6)


def test_same_call_same_bits(rng):
    a, b = rng.standard_normal((100, 300)).astype(np.float32), rng.standard_normal((300, 90)).astype(np.float32)
    f = post.epilogue(lambda acc: post.logsumexp(acc, axis=1))
    first = post.matmul(a, b, epilogue=f)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(post.matmul(a, b, epilogue=f, target=post.Target.cpu(threads)), first)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("target", ["portable", "cpu"])
def test_all_nan_are_alike(target, dtype):
    """In every layout the same elements are NaN and the others have the same bits; a NaN of f16 has one set of bits."""
    rng = np.random.default_rng(0)
    a, b, r = (rng.standard_normal(shape).astype(np.float32) for shape in ((37, 30), (30, 70), (37, 70)))
    a[::4, 3], b[3, ::2], r[::2, ::5], r[:, ::3] = np.nan, -np.nan, -np.nan, np.nan
    f = post.epilogue(lambda acc, r: {"D": post.cast(acc + r, post.f16 if dtype == np.float16 else post.f32)})
    first = post.matmul(a, b, epilogue=f, r=r, out=np.empty((37, 70), dtype), target=target).D
    assert 0 < np.isnan(first).sum() < first.size
    for out in (np.empty((70, 37), dtype).T, np.empty((37, 140), dtype)[:, ::2], np.empty((37, 73), dtype)[:, 3:]):
        post.matmul(a, b, epilogue=f, r=r, out=out, target=target)
        np.testing.assert_array_equal(out, first)  # NaN equal NaN
        if dtype == np.float16:
            np.testing.assert_array_equal(np.ascontiguousarray(out).view(np.uint16), first.view(np.uint16))


def test_axes_of_one_element():
    """A col of (M, 1), a row of (1, N) and a scalar of (1, 1), as torch and numpy write what they broadcast."""
    @post.epilogue
    def scaled(acc, row: post.row, col: post.col, scalar: post.scalar):
        d = acc * col + row * scalar
        return {"D": d, "total": post.sum(d, axis=0), "most": post.max(d, axis=1)}

    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((7, 5), np.float32), rng.standard_normal((5, 6), np.float32)
    row, col, scalar = (rng.standard_normal(shape, np.float32) for shape in ((6,), (7,), ()))
    plain = post.matmul(a, b, epilogue=scaled, row=row, col=col, scalar=scalar)
    out = {"D": np.empty((7, 6), np.float32), "total": np.empty((1, 6), np.float32), "most": np.empty((7, 1), np.float32)}
    spread = post.matmul(a, b, epilogue=scaled, row=row[None], col=col[:, None], scalar=scalar.reshape(1, 1), out=out)
    for name, x in zip(plain._fields, plain):
        assert getattr(spread, name) is out[name]
        assert (out[name].reshape(x.shape) == x).all(), name
    text = scaled(a @ b, row[None], col[:, None], scalar.reshape(1, 1))
    for x, y in zip(text, scaled(a @ b, row, col, scalar)):
        assert x.shape == y.shape and (x == y).all()

    a3 = np.stack((a, -a))
    row3, col3, scalar3 = np.stack((row, 2 * row)), np.stack((col, 3 * col)), np.array([1, -2], np.float32)
    plain = post.matmul(a3, b, epilogue=scaled, row=row3, col=col3, scalar=scalar3)
    spread = post.matmul(a3, b, epilogue=scaled, row=row3[:, None], col=col3[:, :, None], scalar=scalar3[:, None, None])
    assert all((x == y).all() for x, y in zip(plain, spread))
    text = scaled(a3 @ b, row3[:, None], col3[:, :, None], scalar3[:, None, None])
    assert all((x == y).all() for x, y in zip(text, scaled(a3 @ b, row3, col3, scalar3)))

    of_one = post.matmul(a[None], b, epilogue=scaled, row=row[None], col=col[None], scalar=scalar[None])
    assert [x.shape for x in of_one] == [(1, 7, 6), (1, 6), (1, 7)]  # a batch of one keeps its axis
    out = {name: np.empty_like(x) for name, x in zip(of_one._fields, of_one)}
    post.matmul(a[None], b, epilogue=scaled, row=row[None], col=col[None], scalar=scalar[None], out=out)
    assert all((out[name] == x).all() for name, x in zip(of_one._fields, of_one))


@pytest.mark.parametrize("batched", [False, True])
def test_what_has_no_batch_counts_once_a_batch(batched):
    @post.epilogue
    def totals(acc, w: post.col, r: post.row):
        return {"ws": post.sum(w, axis=0, batch=True), "rs": post.max(r, axis=1, batch=True),
                "both": post.sum(w * acc, axis=1, batch=True),
                "own": post.reduce(w, combine=lambda a, b: a + b, identity=0, axis=0, batch=True)}

    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((3, 4, 5) if batched else (4, 5), np.float32), rng.standard_normal((5, 6), np.float32)
    w, r = rng.random(4, np.float32), rng.random(6, np.float32)
    kernel, plain = post.matmul(a, b, epilogue=totals, w=w, r=r), totals(a @ b, w, r)
    assert kernel.ws == pytest.approx((3 if batched else 1) * w.sum(), rel=1e-6)
    for x, y in zip(kernel, plain):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_a_tuple_of_one_is_reduced_to_a_tuple_of_one():
    @post.epilogue
    def traced(acc):
        p, = post.reduce((acc,), combine=lambda a, b: a + b, identity=0, axis=1)
        return p + post.reduce(acc, combine=lambda a, b: a + b, identity=0, axis=1)

    text = post.parse("def traced(acc):\n    p, = reduce((acc,), combine=lambda a, b: a + b, identity=0, axis=1)\n"
                      "    return p + reduce(acc, combine=lambda a, b: a + b, identity=0, axis=1)\n")
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    for epilogue in (traced, text):
        assert post.matmul(a, b, epilogue=epilogue).tolist() == [24, 24]
    assert traced(a @ b).tolist() == [24, 24]

    @post.epilogue
    def whole(acc):
        return acc + post.reduce((acc,), combine=lambda a, b: a + b, identity=0, axis=1)
    for wrong in (lambda: post.matmul(a, b, epilogue=whole), lambda: post.parse(
            "def whole(acc):\n    p = reduce((acc,), combine=lambda a, b: a + b, identity=0, axis=1)\n    return acc + p\n")):
        with pytest.raises(post.Error, match="PL0105: this is a tuple of 1 where one value is needed"):
            wrong()
