"""Loops scheduled by hand: every block of the seed's page with its imports changed, then what it leaves out. It is
longer than most because the blocks follow one page."""
import numpy as np
import pytest

import postlude as post
from postlude import te
from postlude.te import build, const, lower


def integers(rng, *shape, dtype=np.float32):
    return rng.integers(-4, 5, shape).astype(dtype)


@pytest.fixture
def rows():
    n = te.var("n")
    m = te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return A, B


def check_rows(rng, s, A, B, shapes=((128, 128), (1, 1), (33, 17), (7, 1000), (3, 0), (0, 5))):
    f = build(s, [A, B])
    for n, m in shapes:
        a = integers(rng, n, m).astype(A.dtype)
        b = np.full(n, -1, dtype=B.dtype)
        f(a, b)
        np.testing.assert_array_equal(b, a.sum(1))


def test_describe_sum_of_rows(rows, rng):
    A, B = rows
    s = te.create_schedule(B.op)
    text = lower(s, [A, B], simple_mode=True)
    assert text.split() == "for (i, 0, n) { B[i] = 0.0 for (k, 0, m) { B[i] = B[i] + A[i, k] } }".split()
    check_rows(rng, s, A, B)


def test_schedule_the_reduction(rows, rng):
    A, B = rows
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    text = lower(s, [A, B], simple_mode=True)
    assert "for (i.outer, 0, ceildiv(n, 32)) {" in text and "for (k.outer, 0, ceildiv(m, 16)) {" in text
    assert "if (i.outer*32 + i.inner < n)" in text and "if (k.outer*16 + k.inner < m)" in text
    check_rows(rng, s, A, B)

    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.x"))
    text = lower(s, [A, B], simple_mode=True)
    assert "ceildiv(n, 32)) blockIdx.x {" in text and "32) threadIdx.x {" in text
    check_rows(rng, s, A, B)


def test_reduction_factoring_and_parallelization(rows, rng):
    A, B = rows
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    text = lower(s, [A, B], simple_mode=True)
    assert "allocate B.rf[16, n] f32" in text and "for (k.inner.v, 0, 16)" in text
    assert str(s[B].op.body) == "[sum(B.rf[k.inner.v, i], axis=[k.inner.v])]"
    check_rows(rng, s, A, B)

    xo, xi = s[B].split(s[B].op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    text = lower(s, [A, B])
    assert "threadIdx.x combined" in text and "if (k.inner.v == 0 &" in text
    check_rows(rng, s, A, B)

    fcuda = build(s, [A, B], "cuda")
    source = fcuda.imported_modules[0].get_source()
    assert "__shfl_down_sync" in source and "B_rf" in source and source == fcuda.source
    nn = 128
    a = np.random.uniform(size=(nn, nn)).astype(A.dtype)
    b = np.zeros(nn, dtype=B.dtype)
    try:
        fcuda(a, b)
    except post.MachineError:  # no device here
        return
    np.testing.assert_allclose(b, np.sum(a, axis=1), rtol=1e-4)


def test_describe_convolution_via_2d_reduction(rng):
    n = te.var("n")
    Input = te.placeholder((n, n), name="Input")
    Filter = te.placeholder((3, 3), name="Filter")
    di = te.reduce_axis((0, 3), name="di")
    dj = te.reduce_axis((0, 3), name="dj")
    Output = te.compute(
        (n - 2, n - 2),
        lambda i, j: te.sum(Input[i + di, j + dj] * Filter[di, dj], axis=[di, dj]),
        name="Output",
    )
    s = te.create_schedule(Output.op)
    assert "Output[i, j] + Input[i + di, j + dj]*Filter[di, dj]" in lower(s, [Input, Filter, Output], simple_mode=True)
    f = build(s, [Input, Filter, Output])
    for size in (3, 20, 70):
        x, w = integers(rng, size, size), integers(rng, 3, 3)
        y = np.empty((size - 2, size - 2), np.float32)
        f(x, w, y)
        np.testing.assert_array_equal(y, sum(x[p:p + size - 2, q:q + size - 2] * w[p, q] for p in range(3) for q in range(3)))


def test_define_general_commutative_reduction_operation(rng):
    n = te.var("n")
    m = te.var("m")
    product = te.comm_reducer(lambda x, y: x * y, lambda t: const(1, dtype=t), name="product")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
    s = te.create_schedule(B)
    a = rng.choice([-1, 1, 2], (9, 12)).astype(np.float32)
    b = np.empty(9, np.float32)
    build(s, [A, B])(a, b)
    np.testing.assert_array_equal(b, a.prod(1))


def test_a_reducer_of_tuples(rng):
    n, m = te.var("n"), te.var("m")
    first = te.comm_reducer(
        lambda x, y: (te.where((x[1] >= y[1]), x[0], y[0]), te.where((x[1] >= y[1]), x[1], y[1])),
        lambda t0, t1: (const(-1, dtype=t0), te.min_value(t1)), name="first")
    index, value = te.placeholder((n, m), "int32", "index"), te.placeholder((n, m), "float32", "value")
    k = te.reduce_axis((0, m), "k")
    T0, T1 = te.compute((n,), lambda i: first((index[i, k], value[i, k]), axis=k), name="T")
    s = te.create_schedule(T0)
    outer, inner = s[T0].split(k, factor=4)
    with pytest.raises(post.Error, match="rfactor of 'k.inner': 'first' is not commutative"):
        s.rfactor(T0, inner)  # of equals the first would be another's
    s.rfactor(T0, outer)
    places = np.tile(np.arange(50, dtype=np.int32), (7, 1))
    for values in rng.permutation(350).reshape(7, 50), rng.integers(0, 4, (7, 50)):
        values = values.astype(np.float32)
        for schedule in s, te.create_schedule(T0), T0:
            o, v = np.empty(7, np.int32), np.empty(7, np.float32)
            build(schedule, [index, value, T0, T1])(places, values, o, v)
            np.testing.assert_array_equal(o, values.argmax(1))
            np.testing.assert_array_equal(v, values.max(1))


@pytest.mark.parametrize("shape", [(1, 4), (5, 7), (70, 200), (3, 5000), (9000, 3)])
def test_a_reducer_that_does_not_commute_keeps_its_order(shape, rng):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    a = rng.integers(-4, 5, shape).astype(np.float32)
    for name, combine in (("less", lambda x, y: x - y), ("halved", lambda x, y: x * 0.5 + y), ("last", lambda x, y: y)):
        reducer = te.comm_reducer(combine, lambda t: const(0, dtype=t), name=name)
        B = te.compute((n,), lambda i: reducer(A[i, k], axis=k), name="B")
        wanted = np.zeros(shape[0], np.float32)
        for j in range(shape[1]):
            wanted = combine(wanted, a[:, j]).astype(np.float32)
        split, turned = te.create_schedule(B), te.create_schedule(B)
        split[B].split(k, factor=8)
        turned[B].reorder(k, B.op.axis[0])
        for s in (te.create_schedule(B), split, turned, B):
            b = np.empty(shape[0], np.float32)
            f = build(s, [A, B])
            f(a, b)
            np.testing.assert_array_equal(b, wanted)
            assert f"'{name}' is not commutative" in f.explain()
        with pytest.raises(post.Error, match=f"bind of 'k' to threadIdx.x: '{name}' is not commutative"):
            te.create_schedule(B)[B].bind(k, te.thread_axis("threadIdx.x"))


def test_a_reducer_of_counts_may_be_factored(rng):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")

    def joined(x, y):  # means, squares and counts, which are never negative
        count, apart = x[2] + y[2], y[0] - x[0]
        part = te.where(count > 0, y[2] / te.max(count, 1.0), 0.0)
        return x[0] + apart * part, x[1] + y[1] + apart * apart * x[2] * part, count

    welford = te.comm_reducer(joined, lambda *types: [const(0, t) for t in types], name="welford")
    outputs = te.compute((n,), lambda i: welford((A[i, k], const(0.0), const(1.0)), axis=k), name="W")
    s = te.create_schedule(outputs[0])
    s.rfactor(outputs[0], s[outputs[0]].split(k, factor=16)[1])
    a = rng.standard_normal((5, 301)).astype(np.float32)
    for schedule in s, te.create_schedule(outputs[0]), list(outputs):
        mean, squares, count = (np.empty(5, np.float32) for _ in range(3))
        build(schedule, [A, *outputs])(a, mean, squares, count)
        np.testing.assert_allclose(mean, a.mean(1), atol=1e-5)
        np.testing.assert_allclose(squares, a.var(1) * 301, rtol=1e-4)


def test_several_reductions_over_the_same_axes(rng):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")

    def described(i):
        place, top = te.argmax(A[i, k], axis=k)
        return te.sum(A[i, k], axis=k), top, te.min(A[i, k] * 2, axis=k), place

    outputs = te.compute((n,), described, name="B")
    s = te.create_schedule(outputs[0])
    s.rfactor(outputs[0], s[outputs[0]].split(k, factor=4)[1])
    a = rng.integers(-9, 9, (6, 50)).astype(np.float32)
    for schedule in te.create_schedule(outputs[0]), s, list(outputs):
        arrays = [np.empty(6, t) for t in (np.float32, np.float32, np.float32, np.int64)]
        build(schedule, [A, *outputs])(a, *arrays)
        for is_, wanted in zip(arrays, (a.sum(1), a.max(1), a.min(1) * 2, a.argmax(1))):
            np.testing.assert_array_equal(is_, wanted)
    with pytest.raises(post.Error, match="over different axes"):
        z = te.reduce_axis((0, m), "z")
        te.compute((n,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, z], axis=z)), name="C")
    with pytest.raises(post.Error, match="some results of 'argmax'"):
        te.compute((n,), lambda i: (te.argmax(A[i, k], axis=k)[0], te.max(A[i, k], axis=k)), name="C")


def test_remainders_stay_within(rng):
    n = te.var("n")
    A = te.placeholder((8,), name="A")
    B = te.compute((n,), lambda i: A[(i * 3 + 1) % 8] + A[i // 4 % 8], name="B")
    a, b = integers(rng, 8), np.empty(50, np.float32)
    build(te.create_schedule(B), [A, B])(a, b)
    i = np.arange(50)
    np.testing.assert_array_equal(b, a[(i * 3 + 1) % 8] + a[i // 4 % 8])
    C = te.compute((n,), lambda i: A[i % 9], name="C")
    with pytest.raises(post.Error, match=r"is in \[0, 8\], and axis 0 has 8 elements"):
        build(te.create_schedule(C), [A, C])(a, b)


def test_a_written_cache_leaves_the_tensors_axes(rng):
    n, m, l = te.var("n"), te.var("m"), te.var("l")
    A, B = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C)
    cache = s.cache_write(C, "global")
    _, columns, _, _ = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 4)
    s[cache].compute_at(s[C], columns)
    ko, ki = s[cache].split(k, factor=4)
    s[cache].reorder(ko, *s[cache].op.axis, ki)
    a, b = integers(rng, 19, 10), integers(rng, 10, 21)
    c = np.empty((19, 21), np.float32)
    build(s, [A, B, C])(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_argmax_and_a_stage_behind(rng):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    index, value = te.compute((n,), lambda i: te.argmax(A[i, k], axis=k), name="M")
    S = te.compute((n, m), lambda i, j: te.exp(A[i, j] - value[i]), name="S")
    s = te.create_schedule([index, S])
    a = rng.standard_normal((6, 40)).astype(np.float32)
    a[3, 5] = np.nan
    o, e = np.empty(6, np.int64), np.empty((6, 40), np.float32)
    build(s, [A, index, S])(a, o, e)
    np.testing.assert_array_equal(o, a.argmax(1))
    np.testing.assert_allclose(e, np.exp(a - a.max(1, keepdims=True)), rtol=1e-5)


def test_dtypes_strides_and_padding(rng):
    n = te.var("n")
    X = te.placeholder((n,), "int8", name="X")
    k = te.reduce_axis((0, 3), "k")
    window = te.compute((n,), lambda i: te.sum(te.where((i + k >= 1) & (i + k <= n), X[i + k - 1], 0), axis=k), name="W")
    half = te.compute((n,), lambda i: te.gelu(window[i]), name="H", dtype="float16")
    s = te.create_schedule(half)
    s[window].compute_at(s[half], half.op.axis[0])
    x = integers(rng, 90, dtype=np.int8)[::2]
    h = np.empty(45, np.float16)
    build(s, [X, half])(x, h)
    w = np.convolve(x.astype(np.float32), np.ones(3, np.float32), "same")
    np.testing.assert_allclose(h, post.gelu(w).astype(np.float16), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("schedule, name, words", [
    (lambda s, B: s[B].split(B.op.axis[0], factor=0), "bad_attribute", ["'i'", "0"]),
    (lambda s, B: s[B].split(B.op.axis[0], factor=2**70), "bad_attribute", ["i into 1180591620717411303424"]),
    (lambda s, B: s[B].split(B.op.axis[0], nparts=2.5), "bad_attribute", ["i into 2.5"]),
    (lambda s, B: te.create_schedule(3), "usage", ["3 is no tensor"]),
    (lambda s, B: te.build(s, [B])(np.ones(3, np.float32)), "missing_operand", ["'A'"]),
    (lambda s, B: te.softmax(B), "undefined_name", ["'softmax'"]),
    (lambda s, B: te.gleu(B), "undefined_name", ["Did you mean 'gelu'?"]),
    (lambda s, B: te.placeholders((3,)), "undefined_name", ["Did you mean 'placeholder'?"]),
    (lambda s, B: te.build(s, ["x"]), "usage", ["'x' is no tensor"]),
    (lambda s, B: s[B].split(te.reduce_axis((0, 3), "z"), factor=2), "bad_schedule", ["'z'", "no loop of 'B'"]),
    (lambda s, B: s[B].parallel(B.op.reduce_axis[0]), "bad_schedule", ["'k'", "reduced"]),
    (lambda s, B: s[B].fuse(B.op.axis[0], B.op.reduce_axis[0]), "bad_schedule", ["'i'", "'k'"]),
    (lambda s, B: s[B].compute_inline(), "bad_schedule", ["'B'"]),
    (lambda s, B: s.rfactor(B, B.op.axis[0]), "bad_schedule", ["'i'", "not reduced"]),
    (lambda s, B: te.thread_axis("threadIdx.w"), "bad_attribute", ["threadIdx.w"]),
    (lambda s, B: s[B].split(B.op.axis[0], factor=True), "bad_attribute", ["i into True"]),
    (lambda s, B: s[B].split(3, factor=2), "usage", ["split: 3 is not a loop", "s[B].op.axis"]),
    (lambda s, B: s[B].fuse(), "bad_call", ["fuse: of no loop"]),
    (lambda s, B: s[B].reorder("k"), "usage", ["reorder: 'k' is not a loop"]),
    (lambda s, B: s[B].bind(B.op.axis[0], "threadIdx.x"), "usage", ["bind: 'threadIdx.x' is not a thread axis"]),
    (lambda s, B: s[B].unroll(), "bad_call", ["unroll takes axis"]),
    (lambda s, B: s[B].tile(*B.op.axis, *B.op.reduce_axis, 4, None), "bad_attribute", ["tile by None"]),
    (lambda s, B: s[B].compute_at(B, B.op.axis[0]), "usage", ["compute_at: ", "is not a stage"]),
    (lambda s, B: s[B].set_scope(3), "usage", ["set_scope: 3 is not a name"]),
    (lambda s, B: s[3], "usage", ["this has no stage: 3"]),
    (lambda s, B: s.rfactor("B", B.op.reduce_axis[0]), "usage", ["rfactor: 'B' is not a tensor"]),
    (lambda s, B: s.cache_read("A", "shared", [B]), "usage", ["cache_read: 'A' is not a tensor"]),
    (lambda s, B: s.cache_read(B, "near", [B]), "bad_attribute", ["no scope 'near'"]),
    (lambda s, B: s[B].set_store_predicate(3), "usage", ["set_store_predicate: 3 is not a condition", "Compare"]),
    (lambda s, B: s[B].set_store_predicate(B[0]), "type_mismatch", ["the store predicate of 'B' is no condition: B[0]"]),
    (lambda s, B: s[B].compute_inline(3), "bad_call", ["compute_inline takes nothing"]),
    (lambda s, B: s[B].compute_root(at=B), "bad_call", ["compute_root takes nothing"]),
    (lambda s, B: te.compute((3,), lambda i, j: B[i]), "bad_call", ["'compute' takes no 1 axes", "'j'"]),
    (lambda s, B: te.compute((3, 3), lambda i: B[i], name="C"), "bad_call", ["'C' takes no 2 axes"]),
    (lambda s, B: te.compute((3,), lambda i: (B[i], B[i]), dtype="float16"), "bad_call", ["a dtype of several outputs"]),
    (lambda s, B: te.comm_reducer(lambda x: x, lambda t: const(0, t), "r")(B[0], B.op.reduce_axis[0]), "bad_call",
     ["'r' takes no 2 values"]),
    (lambda s, B: te.comm_reducer(lambda x, y: x, lambda: 0, "r")(B[0], B.op.reduce_axis[0]), "bad_call",
     ["'r' takes no 1 types"]),
    (lambda s, B: te.compute((3,), lambda i: (), name="C"), "no_output", ["'C' computes nothing"]),
    (lambda s, B: te.sum(B[0], axis=B.op.reduce_axis[0], where=3), "type_mismatch", ["where 3, which is no condition"]),
    (lambda s, B: te.cast(None, "float32"), "usage", ["an expression is empty"]),
    (lambda s, B: te.const(None), "usage", ["an expression is empty"]),
    (lambda s, B: te.reduce_axis((None, 3)), "type_mismatch", ["an extent of 'rv' is no integer"]),
    (lambda s, B: te.comm_reducer(lambda x, y: None, lambda t: const(0, t), "r")(B[0], B.op.reduce_axis[0]), "bad_combiner",
     ["'r' combines two values into none"]),
    (lambda s, B: te.where(B[0] > 0, 1.0), "bad_call", ["where: missing a required argument: 'b'", "te.where(condition, a, b)"]),
    (lambda s, B: te.cast(B[0]), "bad_call", ["cast: missing", "'dtype'"]),
    (lambda s, B: te.const(), "bad_call", ["const: missing", "'value'"]),
    (lambda s, B: te.sum(), "bad_call", ["sum: missing", "'x'"]),
    (lambda s, B: te.max(), "bad_call", ["max: missing", "'x'"]),
    (lambda s, B: te.sum(B[0], axes=B.op.reduce_axis), "bad_call", ["sum: got an unexpected keyword argument 'axes'"]),
    (lambda s, B: te.placeholder(), "bad_call", ["placeholder: missing", "'shape'"]),
    (lambda s, B: te.var("n", "int32", 3), "bad_call", ["var: too many positional arguments"]),
    (lambda s, B: te.reduce_axis(), "bad_call", ["reduce_axis: missing"]),
    (lambda s, B: te.thread_axis(1, 2, 3), "bad_call", ["thread_axis: too many"]),
    (lambda s, B: te.compute((3,)), "bad_call", ["compute: missing", "'fcompute'"]),
    (lambda s, B: te.comm_reducer(), "bad_call", ["comm_reducer: missing"]),
    (lambda s, B: te.comm_reducer(lambda x, y: x + y, lambda t: const(0, t), "r")(B[0]), "bad_call", ["r: missing", "'axis'"]),
    (lambda s, B: te.epilogue(), "bad_call", ["epilogue: missing", "'accumulator'"]),
    (lambda s, B: te.create_schedule(), "bad_call", ["create_schedule: missing"]),
    (lambda s, B: te.choose_schedule(), "bad_call", ["choose_schedule: missing"]),
    (lambda s, B: te.lower(), "bad_call", ["lower: missing", "te.lower(s, args, simple_mode=True"]),
    (lambda s, B: te.build(s), "bad_call", ["build: missing", "'args'"]),
    (lambda s, B: list(B), "usage", ["'B' is a tensor", "A[i, k]"]),  # it never ended
    (lambda s, B: +B, "usage", ["'B' is a tensor"]),
    (lambda s, B: te.all(1, 2), "usage", ["all: 1 is not a condition", "te.all(i >= 1, i < n)"]),
    (lambda s, B: te.any(B[0] > 0, 2.0), "usage", ["any: 2.0 is not a condition"]),
    (lambda s, B: te.all(None), "usage", ["all: None is not a condition"]),
    (lambda s, B: te.var("\ud800"), "usage", ["is not a name"]),
    (lambda s, B: te.placeholder(np.array(3)), "usage", ["the shape of 'placeholder' is array(3)"]),
    (lambda s, B: te.placeholder(str), "usage", ["the shape of 'placeholder' is"]),
    (lambda s, B: s[B].split(B.op.axis[0], factor=np.array([1, 2])), "bad_attribute", ["i into array([1, 2])"]),
    (lambda s, B: s[B].split(B.op.axis[0], factor=int), "bad_attribute", ["i into <class 'int'>"]),
    (lambda s, B: (lambda C: te.build(C, [C])(a=1))(te.compute((3,), lambda i: 1.0, name="C")), "bad_call",
     ["arrays are given in order: C; not by name, as 'a'"]),
    (lambda s, B: te.build(s, [B], np.array([1, 2])), "usage", ["is not a target"]),
    (lambda s, B: te.const(np.float16("inf"), "int32"), "bad_attribute", ["const: inf is no int32"]),
    (lambda s, B: te.var("n").equal(), "bad_call", ["equal: missing", "x.equal(other)"]),
    (lambda s, B: B.op.axis[0].equal(1, 2), "bad_call", ["equal: too many"]),
    (lambda s, B: B[0].astype(), "bad_call", ["astype: missing", "x.astype(dtype)"]),
    (lambda s, B: te.epilogue(B, lambda acc, x: acc + x, x=3), "usage", ["epilogue: 3 is not a tensor"]),
    (lambda s, B: te.epilogue(B, lambda acc: acc + 1, columns="x"), "bad_attribute", ["epilogue of columns 'x'"]),
    (lambda s, B: te.epilogue(B, lambda acc: acc + 1, columns=2**40), "wrong_rank", ["'B' has no axis 1099511627776"]),
    (lambda s, B: te.exp(B[0], base=2), "bad_call", ["exp: got an unexpected keyword argument 'base'"]),
    (lambda s, B: s[B].split(), "bad_call", ["split: missing", "s[B].split(parent, factor=None, nparts=None)"]),
    (lambda s, B: s[B].split(B.op.axis[0], by=3), "bad_call", ["split: got an unexpected"]),
    (lambda s, B: s[B].fuse(axes=B.op.axis), "bad_call", ["fuse: got an unexpected"]),
    (lambda s, B: s[B].reorder(axes=B.op.axis), "bad_call", ["reorder: got an unexpected"]),
    (lambda s, B: s.rfactor(B), "bad_call", ["rfactor: missing", "s.rfactor(tensor, axis, factor_axis=0)"]),
    (lambda s, B: s.cache_read(B), "bad_call", ["cache_read: missing"]),
    (lambda s, B: s.cache_write(), "bad_call", ["cache_write: missing"]),
    (lambda s, B: te.const(1.5, "bool"), "bad_attribute", ["const: 1.5 is no bool"]),
    (lambda s, B: te.const(2, "bool"), "bad_attribute", ["const: 2 is no bool", "from 0 to 1"]),
    (lambda s, B: B[B.op.axis[0] // 0], "bad_attribute", ["i is divided by 0"]),
    (lambda s, B: B[(B.op.axis[0] + 1) % 0], "bad_attribute", ["i + 1 is divided by 0"]),
    (lambda s, B: te.build(s, [B], 5), "usage", ["target: 5 is not a target"]),
    (lambda s, B: te.sum(None, axis=B.op.reduce_axis[0]), "usage", ["an expression is empty"]),
    (lambda s, B: te.reduce_axis(5), "usage", ["reduce_axis: 5 is not a range"]),
    (lambda s, B: te.placeholder(5), "usage", ["the shape of 'placeholder' is 5"]),
    (lambda s, B: te.compute((3,), 5), "usage", ["compute: 5 is not a function"]),
    (lambda s, B: te.sum(B[0], axis="k"), "usage", ["sum: 'k' is not a reduce axis"]),
    (lambda s, B: te.thread_axis((1, 8), "threadIdx.x"), "usage", ["(1, 8) is not a range from 0"]),
    (lambda s, B: s[None], "usage", ["this has no stage: None"]),
    (lambda s, B: B[None], "usage", ["an empty expression is used as an index"]),
    (lambda s, B: B[0] + None, "usage", ["an expression is empty"]),
    (lambda s, B: B[2**70], "size_overflow", ["does not fit 64 bits: 1180591620717411303424"]),
    (lambda s, B: B.op.axis[0] + 2**2000, "size_overflow", ["does not fit 64 bits"]),
    (lambda s, B: B ^ B, "usage", ["'B' is a tensor", "A[i, k]"]),
    (lambda s, B: 2 * B, "usage", ["'B' is a tensor"]),
    (lambda s, B: B[0] ^ B[1], "unsupported_syntax", ["^"]),
    (lambda s, B: B.op.axis[0] @ B[1], "unsupported_syntax", ["@"]),
    (lambda s, B: te.compute((B.op.axis[0],), lambda i: B[i], name="C"), "foreign_value", ["'C' has the loop 'i'", "its extent"]),
    (lambda s, B: te.reduce_axis((0, B.op.axis[0]), "q"), "foreign_value", ["'q' has the loop 'i'"]),
    (lambda s, B: te.comm_reducer(lambda x, y: x + y, lambda t: True, "r")(B[0], B.op.reduce_axis[0]), "bad_combiner",
     ["the identity of 'r', true, is bool", "is f32"]),
    (lambda s, B: te.comm_reducer(lambda x, y: x > y, lambda t: const(0, t), "r")(B[0], B.op.reduce_axis[0]), "bad_combiner",
     ["'r' combines", "is bool", "is f32"]),
    (lambda s, B: s[B].bind(s[B].split(B.op.axis[0], factor=32)[1], te.thread_axis((0, 8), "threadIdx.x")), "bad_schedule",
     ["threadIdx.x of 8 cannot run 'i.inner' of 32"]),
])
def test_refusals(rows, schedule, name, words):
    A, B = rows
    with pytest.raises(post.Error) as caught:
        schedule(te.create_schedule(B), B)
    assert caught.value.name == name
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_refusals_of_a_nest(rows):
    A, B = rows
    s = te.create_schedule(B)
    xo, xi = s[B].split(B.op.axis[0], factor=32)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    s[B].bind(xi, te.thread_axis("threadIdx.x"))
    with pytest.raises(post.Error, match="already runs 'i.inner'"):
        s[B].bind(xo, te.thread_axis("threadIdx.x"))
    s[B].bind(ki, te.thread_axis("threadIdx.y"))
    with pytest.raises(post.Error, match="rfactor"):
        lower(s, [A, B])

    skewed = te.comm_reducer(lambda x, y: x * 2 + y, lambda t: const(0, dtype=t), name="skewed")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((4,), lambda i: skewed(A[i, k], axis=k), name="C")
    with pytest.raises(post.Error, match="'k'.*'skewed' is not commutative"):
        te.create_schedule(C).rfactor(C, k)


def test_refusals_of_arrays(rows, rng):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i + 1, k], axis=k), name="B")
    f, plain = build(te.create_schedule(B), [A, B]), build(te.create_schedule(rows[1]), list(rows))
    with pytest.raises(post.Error, match=r"index i \+ 1 of 'A' in 'B' is in \[1, 4\], and axis 0 has 4 elements"):
        f(np.zeros((4, 4), np.float32), np.zeros(4, np.float32))
    with pytest.raises(post.Error, match="'B' is float64"):
        f(np.zeros((4, 4), np.float32), np.zeros(4))
    with pytest.raises(post.Error, match="as 'A' says"):
        f(np.zeros((4, 4), np.float32), np.zeros(5, np.float32))
    a = np.zeros((4, 4), np.float32)
    with pytest.raises(post.Error, match="output '.*' overlaps 'A'"):
        plain(a, a[0])
    with pytest.raises(post.Error, match="3 arrays are given for 2 arguments"):
        plain(a, a[0], a)


def test_a_product_runs_on_its_main_loop(rng):
    n, m, l = te.var("n"), te.var("m"), te.var("l")
    A, W = te.placeholder((n, l), name="A"), te.placeholder((m, l), name="W")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * W[j, k], axis=k), name="C")
    a, w = integers(rng, 30, 50), integers(rng, 40, 50)
    s = te.create_schedule(C)
    plain = te.build(s, [A, W, C])
    assert plain.explain().startswith("a product of matrices, A and W: it runs on the main loop gemm")
    s[C].split(C.op.axis[0], factor=4)
    by_hand = te.build(s, [A, W, C])
    assert by_hand.explain().startswith("scheduled by\nC_i_outer, C_i_inner = s[C].split(s[C].op.axis[0], factor=4)\n")
    for f in (plain, by_hand):
        c = np.empty((30, 40), np.float32)
        f(a, w, c)
        np.testing.assert_array_equal(c, a @ w.T)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_an_epilogue_behind_a_product(rng, target):
    @post.epilogue
    def soft(acc, bias: post.row):
        x = acc + bias
        e = post.exp(x - post.max(x, axis=1))
        return {"D": post.relu(x), "S": e / post.sum(e, axis=1), "best": post.argmax(x, axis=1),
                "lse": post.logsumexp(x, axis=1), "v": post.var(x, axis=0), "mean": post.mean(x)}

    n, m, l = te.var("n"), te.var("m"), te.var("l")
    A, B = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    bias = te.placeholder((m,), name="bias")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    outputs = te.epilogue(C, soft, bias=bias)
    arguments = [A, B, bias, *outputs]
    if target == "cuda":  # only its source, where there is no device
        assert "__global__" in te.build(te.choose_schedule(outputs, "cuda"), arguments, "cuda").source
        return
    fused = te.build(te.create_schedule(outputs), arguments)
    loops = te.build(te.choose_schedule(outputs), arguments)
    assert "main loop gemm" in fused.explain() and "scheduled by" in loops.explain()
    assert te.build(outputs, arguments).explain() == fused.explain()
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((30, 50), (50, 40), (40,)))
    expected = post.matmul(a, b, epilogue=soft, bias=c)
    for f in (fused, loops):
        results = [np.empty((30, 40), np.float32), np.empty((30, 40), np.float32), np.empty(30, np.int64),
                   np.empty(30, np.float32), np.empty(40, np.float32), np.empty((), np.float32)]
        f(a, b, c, *results)
        for name, result in zip(("D", "S", "best", "lse", "v", "mean"), results):
            np.testing.assert_allclose(result, getattr(expected, name), rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_filter_with_bias_and_activation_is_one_nest(rng):
    @post.epilogue
    def bias_relu(acc, bias: post.row):
        return post.relu(acc + bias)

    n, m = te.var("n"), te.var("m")
    X, F = te.placeholder((n, m), name="X"), te.placeholder((3, 3), name="F")
    di, dj = te.reduce_axis((0, 3), "di"), te.reduce_axis((0, 3), "dj")
    Y = te.compute((n - 2, m - 2), lambda i, j: te.sum(X[i + di, j + dj] * F[di, dj], axis=[di, dj]), name="Y")
    bias = te.placeholder((m - 2,), name="bias")
    D = te.epilogue(Y, bias_relu, bias=bias)
    s = te.choose_schedule(D)
    assert "s[Y].compute_at(s[D], D_i_inner)" in s.calls
    x, w, b = integers(rng, 23, 41), integers(rng, 3, 3), integers(rng, 39)
    d = np.empty((21, 39), np.float32)
    build(s, [X, F, bias, D])(x, w, b, d)
    y = sum(x[p:p + 21, q:q + 39] * w[p, q] for p in range(3) for q in range(3))
    np.testing.assert_array_equal(d, np.maximum(y + b, 0))


def test_chosen_calls_make_the_schedule(rows, rng):
    A, B = rows
    for target in ("cpu", "cuda"):
        chosen = te.choose_schedule(B, target)
        s = te.create_schedule(B)
        names = {"s": s, "te": te, "B": B}
        exec(chosen.calls, names)
        assert lower(s, [A, B]) == lower(chosen, [A, B])
        check_rows(rng, s, A, B)


def test_calls_make_a_store_predicate_again(rows):
    A, B = rows
    s = te.create_schedule(B)
    BF = s.rfactor(B, s[B].split(B.op.reduce_axis[0], factor=16)[1])
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(3) & (A.shape[0] > 2))
    again, names = te.create_schedule(B), {"te": te, "B": B, "n": A.shape[0]}
    exec(s.calls, names | {"s": again})
    assert lower(again, [A, B]) == lower(s, [A, B]) and "k.inner.v == 3 & n > 2" in lower(s, [A, B])


def test_a_softmax_of_short_rows_has_more_of_them_together(rng):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    k, l = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "l")
    top = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="top")
    E = te.compute((n, m), lambda i, j: te.exp(A[i, j] - top[i]), name="E")
    total = te.compute((n,), lambda i: te.sum(E[i, l], axis=l), name="total")
    S = te.compute((n, m), lambda i, j: E[i, j] / total[i], name="S")
    f = build(S, [A, S])
    for n, m, rows_together in ((1000, 4, 256), (3, 5, 256), (77, 64, 256), (50, 65, 128), (5, 1030, 16), (0, 3, 256), (2, 0, 256)):
        a, s = rng.standard_normal((n, m)).astype(np.float32), np.empty((n, m), np.float32)
        f(a, s)
        e = np.exp(a - a.max(1, keepdims=True, initial=-np.inf))
        np.testing.assert_allclose(s, e / e.sum(1, keepdims=True), rtol=1e-5)
        assert f"s[S].split(s[S].op.axis[0], factor={rows_together})" in f.explain()
        assert f"for (i.inner, 0, {rows_together})" in f.source


# Judged on positive numbers (decision 0161); of any others a factored nest gives what its order says.
def test_a_factored_reducer_of_ones_own_over_any_numbers(rng):
    most = te.comm_reducer(lambda x, y: te.where(x > y, x, y), lambda t: te.min_value(t), name="most")
    apart = te.comm_reducer(lambda x, y: te.abs(x) + te.abs(y), lambda t: const(0, t), name="apart")

    def ordered(name, x, start):
        for y in x:
            start = (start if start > y else y) if name == "most" else abs(start) + abs(y)
        return np.float32(start)

    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    a = rng.integers(-9, 10, (6, 70)).astype(np.float32)
    with_nan = np.where(rng.random(a.shape) < 0.1, np.nan, a).astype(np.float32)
    with_nan[1, ::3] = -np.inf
    for name, reducer, start in (("most", most, -np.inf), ("apart", apart, 0.0)):
        for inner in (True, False):
            k = te.reduce_axis((0, m), "k")
            B = te.compute((n,), lambda i: reducer(A[i, k], axis=k), name="B")
            s = te.create_schedule(B)
            s.rfactor(B, s[B].split(k, factor=8)[inner])
            f = build(s, [A, B])
            for x in (a, -np.abs(a), with_nan):
                b = np.empty(6, np.float32)
                f(x, b)
                for row, is_ in zip(x, b):
                    parts = [row[p::8] for p in range(8)] if inner else [row[p:p + 8] for p in range(0, 70, 8)]
                    np.testing.assert_array_equal(is_, ordered(name, [ordered(name, p, start) for p in parts], start))


def test_bits_are_those_of_the_schedule_whatever_the_threads(rows, rng):
    A, B = rows
    q = te.reduce_axis((0, A.shape[0]), "q")
    C = te.compute((A.shape[1],), lambda j: te.sum(A[q, j], axis=q), name="C")
    for out, axis in ((B, 1), (C, 0)):
        for shape in ((3, 10001), (1000, 77)):
            a = rng.standard_normal(shape).astype(np.float32)
            results = set()
            for threads in (1, 2, 3, 7):
                b = np.empty(shape[1 - axis], np.float32)
                build(out, [A, out], post.Target.cpu(threads))(a, b)
                results.add(b.tobytes())
            assert len(results) == 1


@pytest.mark.parametrize("name, value", [("int32", 2**32 + 1), ("int8", 128), ("uint8", -1), ("int32", float("nan")), ("int64", 0.5)])
def test_a_constant_outside_its_type_is_refused(name, value):
    with pytest.raises(post.Error, match=f"const: .* is no {name}"):
        te.const(value, name)


def test_conditions_and_extremes_of_axes():
    n = te.var("n")
    X = te.placeholder((n,), name="X")
    before = te.compute((n,), lambda i: te.where(te.all(i >= 1), X[i - 1], 0), name="P")
    further = te.compute((n, n), lambda i, j: X[te.max(i, j)] - X[te.min(i, j)], name="F")
    x, p, f = np.array([3, 1, 4, 1], np.float32), np.empty(4, np.float32), np.empty((4, 4), np.float32)
    build([before, further], [X, before, further])(x, p, f)
    i, j = np.indices((4, 4))
    np.testing.assert_array_equal(p, [0, 3, 1, 4])
    np.testing.assert_array_equal(f, x[np.maximum(i, j)] - x[np.minimum(i, j)])


def test_argmax_of_what_the_identity_is():
    n, m = te.var("n"), te.var("m")
    A, K = te.placeholder((n, m), name="A"), te.placeholder((n, m), "bool", "K")
    k = te.reduce_axis((0, m), "k")
    at, value = te.compute((n,), lambda i: te.argmax(A[i, k], axis=k, where=K[i, k]), name="I")
    i, v = np.empty(1, np.int64), np.empty(1, np.float32)
    build([at, value], [A, K, at, value])(np.full((1, 6), -np.inf, np.float32), np.array([[0, 0, 1, 0, 1, 1]], bool), i, v)
    assert (i[0], v[0]) == (2, -np.inf)


def test_a_reduced_axis_begins_below_zero():
    n = te.var("n")
    X = te.placeholder((n,), name="X")
    k = te.reduce_axis((-1, 2), "k")
    B = te.compute((n,), lambda i: te.sum(te.where(te.all(i + k >= 0, i + k < n), X[i + k], 0), axis=k), name="B")
    b = np.empty(3, np.float32)
    build(B, [X, B])(np.array([1, 2, 4], np.float32), b)
    np.testing.assert_array_equal(b, [3, 7, 6])


OPERATIONS = [(name, spelling, arity) for name, spelling, arity, is_elementwise, _ in post._core.op_table()
              if is_elementwise and arity > 0 and name != "cast"]


@pytest.mark.parametrize("name, spelling, arity", OPERATIONS, ids=[name for name, _, _ in OPERATIONS])
def test_every_operation_of_the_language(rng, name, spelling, arity):
    """Inside a reduction's stage too: what it gives is what the package's function, or Python's operator, gives of arrays."""
    n, kinds = te.var("n"), 0
    for dtype in ("float32", "int32", "bool"):
        arrays = [(rng.uniform(0.1, 0.9, (3, 70)) if dtype == "float32" else rng.integers(1, 5, (3, 70))).astype(dtype)
                  for _ in range(arity)]
        if name == "where":
            arrays[0] = rng.integers(0, 2, (3, 70)).astype(bool)
        tensors = [te.placeholder((3, n), dtype=str(a.dtype), name=f"x{i}") for i, a in enumerate(arrays)]
        try:
            C = te.compute((3, n), lambda i, j: post._core.loop_apply(name, [t[i, j] for t in tensors]), name="C")
        except post.Error as refusal:
            assert refusal.name == "type_mismatch"
            continue
        of = [a.astype(np.int32) if dtype == "bool" and C.dtype != "bool" else a for a in arrays]  # numbers: true is 1
        if name in te.public:
            wanted = getattr(post, name)(*of)
        else:
            wanted = eval(f"{spelling}a[0]" if arity == 1 else f"a[0] {spelling} a[1]", {"a": of})
        k = te.reduce_axis((0, n), "k")
        S = te.compute((3,), lambda i: te.max(C[i, k], axis=k), name="S")
        s = te.create_schedule([C, S])
        c, most = np.zeros((3, 70), C.dtype), np.zeros(3, S.dtype)
        te.build(s, [*tensors, C, S])(*arrays, c, most)
        np.testing.assert_allclose(c.astype(np.float64), wanted.astype(np.float64), rtol=2e-6, atol=1e-6)
        np.testing.assert_array_equal(most, c.max(1))
        assert "__global__" in te.build(s, [*tensors, C, S], "cuda").source
        kinds += 1
    assert kinds > 0


def test_a_placeholder_of_nine_axes(rng):
    shape = (2, 1, 3, 2, 1, 2, 3, 2, 2)
    A = te.placeholder(shape, name="A")
    k = [te.reduce_axis((0, shape[d]), f"k{d}") for d in (1, 3, 5, 7)]
    B = te.compute((2, 3, 1, 3, 2), lambda a, b, c, d, e: te.sum(A[a, k[0], b, k[1], c, k[2], d, k[3], e], axis=k), name="B")
    x = rng.integers(-9, 9, shape).astype("f4")
    for schedule in (te.create_schedule(B), te.choose_schedule(B)):
        found = np.empty((2, 3, 1, 3, 2), "f4")
        te.build(schedule, [A, B])(x.transpose(*range(8, -1, -1)).copy().transpose(*range(8, -1, -1)), found)
        np.testing.assert_array_equal(found, x.sum(axis=(1, 3, 5, 7)))
