"""Expressions that are convolutions run on that main loop; whole epilogues behind loops mean what they do behind a product."""
import itertools

import numpy as np
import pytest

import postlude as post
from postlude import te


def integers(rng, *shape):
    return rng.integers(-4, 5, shape).astype(np.float32)


def convolved(x, w, stride, dilation, padding):
    """Of (N, C, ...) by (K, C, ...), tap by tap."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    size = [(x.shape[d + 2] - dilation[d] * (w.shape[d + 2] - 1) - 1) // stride[d] + 1 for d in range(rank)]
    y = np.zeros((x.shape[0], w.shape[0], *size), np.float32)
    for tap in itertools.product(*(range(w.shape[d + 2]) for d in range(rank))):
        part = tuple(slice(t * dilation[d], t * dilation[d] + (size[d] - 1) * stride[d] + 1, stride[d])
                     for d, t in enumerate(tap))
        y += np.einsum("nc...,kc->nk...", x[(slice(None), slice(None), *part)], w[(slice(None), slice(None), *tap)])
    return y


def expression(size, taps, stride, dilation, padding, stage=False):
    """A convolution of (N, C, ...) by (K, C, ...), padded where X is read or in a stage before."""
    rank = len(taps)
    batch, channels = te.var("batch"), te.var("channels")
    X = te.placeholder((batch, channels, *size), name="X")
    W = te.placeholder((te.var("filters"), channels, *taps), name="W")
    c = te.reduce_axis((0, channels), "c")
    r = [te.reduce_axis((0, taps[d]), f"r{d}") for d in range(rank)]
    out = [(size[d] + 2 * padding[d] - dilation[d] * (taps[d] - 1) - 1) // stride[d] + 1 for d in range(rank)]

    def padded(n, channel, *at):
        inside = None
        for d in range(rank):
            if padding[d]:
                here = (at[d] >= 0) & (at[d] < size[d])
                inside = here if inside is None else inside & here
        return X[(n, channel, *at)] if inside is None else te.where(inside, X[(n, channel, *at)], 0)

    if stage:
        P = te.compute((batch, channels, *(size[d] + 2 * padding[d] for d in range(rank))),
                       lambda n, channel, a, b: padded(n, channel, a - padding[0], b - padding[1]), name="P")
    names = {1: lambda n, f, p: element(n, f, p), 2: lambda n, f, p, q: element(n, f, p, q),
             3: lambda n, f, o, p, q: element(n, f, o, p, q)}

    def element(n, f, *p):
        at = [p[d] * stride[d] + r[d] * dilation[d] for d in range(rank)]
        x = P[(n, c, *at)] if stage else padded(n, c, *(at[d] - padding[d] for d in range(rank)))
        return te.sum(x * W[(f, c, *r)], axis=[c, *r])

    Y = te.compute((batch, W.shape[0], *out), names[rank], name="Y")
    return X, W, Y


@pytest.mark.parametrize("size, taps, stride, dilation, padding", [
    ((13,), (3,), (1,), (1,), (0,)),
    ((14,), (4,), (2,), (3,), (2,)),
    ((9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((9, 11), (3, 2), (2, 3), (1, 2), (0, 1)),
    ((7, 8), (5, 5), (1, 1), (1, 1), (2, 2)),
    ((4, 5, 6), (2, 3, 3), (1, 2, 1), (2, 1, 1), (1, 0, 2)),
])
def test_a_convolution_runs_on_its_main_loop(rng, size, taps, stride, dilation, padding):
    X, W, Y = expression(size, taps, stride, dilation, padding)
    s = te.create_schedule(Y)
    plain = te.build(s, [X, W, Y])
    assert plain.explain().startswith(f"a convolution of X by W: it runs on the main loop conv{len(size)}d, because")
    assert te.build(Y, [X, W, Y]).explain() == plain.explain()
    s[Y].split(Y.op.axis[1], factor=2)
    by_hand = te.build(s, [X, W, Y])
    assert by_hand.explain().startswith("scheduled by")
    for batch, channels, filters in ((2, 3, 5), (1, 1, 1), (3, 4, 2)):
        x, w = integers(rng, batch, channels, *size), integers(rng, filters, channels, *taps)
        expected = convolved(x, w, stride, dilation, padding)
        for f in (plain, by_hand):
            y = np.full(expected.shape, np.nan, np.float32)
            f(x, w, y)
            np.testing.assert_array_equal(y, expected)


def test_a_convolution_that_a_stage_pads(rng):
    X, W, Y = expression((6, 7), (3, 3), (1, 2), (1, 1), (1, 1), stage=True)
    f = te.build(te.create_schedule(Y), [X, W, Y])
    assert "it runs on the main loop conv2d" in f.explain()
    x, w = integers(rng, 2, 3, 6, 7), integers(rng, 4, 3, 3, 3)
    expected = convolved(x, w, (1, 2), (1, 1), (1, 1))
    y = np.empty(expected.shape, np.float32)
    f(x, w, y)
    np.testing.assert_array_equal(y, expected)


def test_axes_in_another_order_and_sizes_that_are_symbolic(rng):
    n, h, w, c, k, r, q = (te.var(name) for name in ("n", "h", "w", "c", "k", "r", "q"))
    X, W = te.placeholder((n, h, w, c), name="X"), te.placeholder((r, q, c, k), name="W")
    axes = [te.reduce_axis((0, extent), name) for extent, name in ((r, "dr"), (q, "dq"), (c, "dc"))]
    dr, dq, dc = axes
    # A row above and a column on the left are zeros, and what is left over stays unread.
    Y = te.compute((n, h - r + 2, w - q + 2, k), lambda b, i, j, f: te.sum(
        W[dr, dq, dc, f] * te.where((i + dr >= 1) & (j + dq >= 1), X[b, i + dr - 1, j + dq - 1, dc], 0), axis=axes), name="Y")
    f = te.build(te.create_schedule(Y), [X, W, Y])
    assert "main loop conv2d" in f.explain()
    for size in ((2, 6, 7, 3), (1, 3, 9, 4)):
        for taps in ((3, 2), (2, 3)):
            x, weights = integers(rng, *size), integers(rng, *taps, size[3], 5)
            padded = np.pad(x, ((0, 0), (1, 0), (1, 0), (0, 0)))
            expected = convolved(padded.transpose(0, 3, 1, 2), weights.transpose(3, 2, 0, 1), (1, 1), (1, 1), (0, 0))
            y = np.full((size[0], *expected.shape[2:], 5), np.nan, np.float32)
            f(x, weights, y)
            np.testing.assert_array_equal(y, expected.transpose(0, 2, 3, 1))
            apart = np.full((size[0], *(2 * extent for extent in expected.shape[2:]), 5), np.nan, np.float32)[:, ::2, ::2]
            f(x, weights, apart)  # pixels that are no one axis: loops
            np.testing.assert_array_equal(apart, y)


def test_what_only_looks_like_a_convolution(rng):
    n, k = te.var("n"), te.var("k")
    X, W = te.placeholder((n, n), name="X"), te.placeholder((3, 3), name="W")
    di, dj = te.reduce_axis((0, 3), "di"), te.reduce_axis((0, 3), "dj")
    Y = te.compute((n - 2, n - 2), lambda i, j: te.sum(X[i + di, j + dj] * W[di, dj], axis=[di, dj]), name="Y")
    for f in (te.build(te.create_schedule(Y), [X, W, Y]), te.build(Y, [X, W, Y])):
        assert f.explain().startswith("a convolution of X by W: loops, because it has one filter")

    F = te.placeholder((k, 3), name="F")
    line = te.placeholder((n,), name="line")
    for body in (lambda f, i: te.sum(te.where(i + di >= 2, line[i + di], 0) * F[f, di], axis=di),  # a guard that is narrower
                 lambda f, i: te.sum(te.where(i + di < n, line[i + di], 1) * F[f, di], axis=di),  # ones around it
                 lambda f, i: te.sum(line[i + di] * F[f, 2 - di], axis=di),                       # from the last tap
                 lambda f, i: te.sum(line[i + di] + F[f, di], axis=di)):
        C = te.compute((k, n - 2), body, name="C")
        assert te.build(te.create_schedule(C), [line, F, C]).explain().startswith("as described")


@post.epilogue
def swiglu(acc, bias: post.row):
    gate, up = post.chunk(acc + bias, 2)
    return post.silu(gate) * up


@post.epilogue
def interleaved(acc):
    a, b = post.chunk(acc, 2, group=8)
    return {"D": post.concat([b, -a], group=8), "E": post.concat([a, b]), "half": a + b}


@post.epilogue
def quantised(acc):
    scale = post.max(post.abs(acc), axis=1, group=16)
    return {"D": acc / post.repeat(scale, 16), "scale": scale, "mean": post.mean(acc, axis=1, group=16),
            "v": post.var(acc, axis=0, group=8), "lse": post.logsumexp(acc, axis=1, group=16),
            "best": post.argmax(acc, axis=1, group=16), "least": post.argmin(acc, axis=0, group=8)}


@post.epilogue
def drops(acc):
    keep = post.random(7) < 0.75
    return {"D": post.where(keep, acc / 0.75, 0), "count": post.sum(keep, axis=1), "other": post.random(7, 2)}


@post.epilogue
def rounds(acc):
    return post.cast(acc / 3, post.bf16, round=post.stochastic(5))


@post.epilogue
def moments(acc):
    total, squares = post.reduce((acc, acc * acc), axis=1, combine=lambda a, b, c, d: (a + c, b + d), identity=(0, 0))
    return {"total": total, "squares": squares}


def outputs_of(result, count):
    return list(result.values()) if hasattr(result, "values") else [getattr(result, name) for name in result._fields] \
        if hasattr(result, "_fields") else [result]


@pytest.mark.parametrize("epilogue", [swiglu, interleaved, quantised, drops, rounds, moments], ids=lambda f: f.name)
@pytest.mark.parametrize("rows, columns", [(21, 48), (8, 32)])
def test_an_epilogue_behind_loops_means_the_same(rng, epilogue, rows, columns):
    n, m, l = te.var("n"), te.var("m"), te.var("l")
    A, B = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    a, b = integers(rng, rows, 5), integers(rng, 5, columns)
    operands, bound = {}, {}
    if epilogue is swiglu:
        operands["bias"], bound["bias"] = te.placeholder((m,), name="bias"), integers(rng, columns)
    made = te.epilogue(C, epilogue, **operands)
    made = list(made) if isinstance(made, tuple) else [made]
    arguments = [A, B, *operands.values(), *made]
    expected = post.matmul(a, b, epilogue=epilogue, **bound)
    wanted = [getattr(expected, t.name) for t in made] if len(made) > 1 else [expected]
    s = te.create_schedule(made)
    s[C].split(C.op.axis[0], factor=4)  # loops, not the main loop
    for f in (te.build(s, arguments), te.build(te.choose_schedule(made), arguments)):
        results = [np.zeros_like(w) for w in wanted]
        f(a, b, *bound.values(), *results)
        for tensor, result, want in zip(made, results, wanted):
            np.testing.assert_allclose(result.astype(np.float64), want.astype(np.float64), rtol=1e-5, atol=1e-5,
                                       err_msg=tensor.name)
    assert "__global__" in te.build(te.choose_schedule(made, "cuda"), arguments, "cuda").source


def test_a_chunk_needs_columns_that_divide(rng):
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    C = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="C")
    bias = te.placeholder((m,), name="bias")
    D = te.epilogue(C, swiglu, bias=bias)
    f = te.build(te.create_schedule(D), [A, bias, D])
    with pytest.raises(post.Error, match="7 columns of 'C' are not divisible by 2"):
        f(integers(rng, 3, 7), integers(rng, 7), np.empty((3, 4), np.float32))


def test_an_operand_is_as_large_as_its_use(rng):
    n, m = te.var("n"), te.var("m")
    A, bias = te.placeholder((n, m), name="A"), te.placeholder((te.var("other"),), name="bias")
    C = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="C")
    D = te.epilogue(C, swiglu, bias=bias)
    f = te.build(te.create_schedule(D), [A, bias, D])
    with pytest.raises(post.Error, match="'bias' has 4 elements along axis 0, and the epilogue 8"):
        f(integers(rng, 3, 8), integers(rng, 4), np.empty((3, 4), np.float32))


@post.epilogue
def biased(acc, bias: post.row, shortcut: post.tile):
    return post.relu(acc + bias) + shortcut


def test_an_epilogue_behind_a_convolution_runs_on_its_main_loop(rng):
    X, W, Y = expression((6, 7), (3, 3), (1, 1), (1, 1), (1, 1))
    bias, shortcut = te.placeholder((W.shape[0],), name="bias"), te.placeholder(Y.shape, name="shortcut")
    D = te.epilogue(Y, biased, columns=1, bias=bias, shortcut=shortcut)
    s = te.create_schedule(D)
    plain = te.build(s, [X, W, bias, shortcut, D])
    assert plain.explain().startswith("a convolution of X by W and its epilogue: it runs on the main loop conv2d")
    s[Y].split(Y.op.axis[0], factor=2)
    x, w, b, r = integers(rng, 2, 3, 6, 7), integers(rng, 4, 3, 3, 3), integers(rng, 4), integers(rng, 2, 4, 6, 7)
    expected = np.maximum(convolved(x, w, (1, 1), (1, 1), (1, 1)) + b[:, None, None], 0) + r
    for f in (plain, te.build(s, [X, W, bias, shortcut, D])):
        d = np.empty(expected.shape, np.float32)
        f(x, w, b, r, d)
        np.testing.assert_array_equal(d, expected)


def test_results_that_lie_backwards(rng):  # which main loops refuse
    n, m, l = te.var("n"), te.var("m"), te.var("l")
    A, B = te.placeholder((n, l), name="A"), te.placeholder((l, m), name="B")
    k = te.reduce_axis((0, l), "k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    X, W = te.placeholder((n, l), name="X"), te.placeholder((m, l, 3), name="W")
    c, r = te.reduce_axis((0, l), "c"), te.reduce_axis((0, 3), "r")
    Y = te.compute((n - 2, m), lambda i, f: te.sum(X[i + r, c] * W[f, c, r], axis=[c, r]), name="Y")
    a, b, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((9, 5), (5, 7), (7, 5, 3)))
    for f, left, right, wanted in ((te.build(C, [A, B, C]), a, b, a @ b),
                                   (te.build(Y, [X, W, Y]), a, w, sum(a[q:q + 7] @ w[:, :, q].T for q in range(3)))):
        assert "main loop" in f.explain()
        for rows, columns in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
            results = np.zeros(wanted.shape, np.float32)
            f(left[::-1][::-1], right, results[::rows, ::columns])
            np.testing.assert_array_equal(results[::rows, ::columns], wanted)
