"""Convolutions of one to three axes, their gradients, groups, layouts and plans, against sums that are written out."""
import itertools

import numpy as np
import pytest

import postlude as post


def drawn(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(np.float32)


def last(x):
    """The same values with the channels together in memory."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)).transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


def terms(image, taps, stride, before, dilation, pixels):
    """(pixel, tap, place in the image) of all that meet."""
    for pixel in itertools.product(*map(range, pixels)):
        for tap in itertools.product(*map(range, taps)):
            place = tuple(p * st + t * d - lo for p, t, st, d, lo in zip(pixel, tap, stride, dilation, before))
            if all(0 <= y < size for y, size in zip(place, image)):
                yield pixel, tap, place


class Case:
    def __init__(self, image, taps, stride, padding, dilation, groups=1, n=2, c=4, k=6):
        self.options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        rank = len(image)
        self.image, self.taps, self.groups = image, taps, groups
        self.stride, self.dilation = (given if isinstance(given, tuple) else (given,) * rank for given in (stride, dilation))
        around = padding if isinstance(padding, tuple) else (padding,) * rank
        self.around = [given if isinstance(given, tuple) else (given, given) for given in around]
        self.pixels = tuple((h + sum(a) - d * (r - 1) - 1) // s + 1
                            for h, a, d, r, s in zip(image, self.around, self.dilation, taps, self.stride))
        self.x, self.w, self.dy = drawn(n, c, *image), drawn(k, c // groups, *taps, seed=1), drawn(n, k, *self.pixels, seed=2)

    def sums(self):
        """y, dx, dw."""
        y, dx, dw = (np.zeros_like(a, dtype=np.float64) for a in (self.dy, self.x, self.w))
        c, k = self.x.shape[1] // self.groups, self.w.shape[0] // self.groups
        before = [lo for lo, _ in self.around]
        for pixel, tap, place in terms(self.image, self.taps, self.stride, before, self.dilation, self.pixels):
            for g in range(self.groups):
                cs, ks = slice(g * c, g * c + c), slice(g * k, g * k + k)
                x, w, dy = self.x[(slice(None), cs, *place)], self.w[(ks, slice(None), *tap)], self.dy[(slice(None), ks, *pixel)]
                y[(slice(None), ks, *pixel)] += x @ w.T
                dx[(slice(None), cs, *place)] += dy @ w
                dw[(ks, slice(None), *tap)] += dy.T @ x
        return y, dx, dw


CASES = [Case((9,), (3,), 2, 1, 1), Case((7, 6), (3, 2), (2, 1), ((1, 1), (0, 1)), 1), Case((8, 8), (3, 3), 3, 2, 2, groups=2),
         Case((4, 5, 6), (2, 3, 2), (1, 2, 2), 1, 1), Case((7, 7), (3, 3), 1, 1, 1, groups=4, k=4), Case((6, 6), (1, 1), 2, 0, 1)]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
@pytest.mark.parametrize("order", [np.asarray, last])
def test_is_the_sum(case, order):
    y, dx, dw = case.sums()
    x, w, dy = order(case.x), order(case.w), order(case.dy)
    conv = (post.conv1d, post.conv2d, post.conv3d)[len(case.image) - 1]
    np.testing.assert_array_equal(conv(x, w, **case.options), y)
    np.testing.assert_array_equal(post.conv_dgrad(dy, w, case.image, **case.options), dx)
    np.testing.assert_array_equal(post.conv_wgrad(x, dy, case.taps, **case.options), dw)


def test_channels_last_layout():
    case = CASES[2]
    y, dx, dw = case.sums()
    x, w, dy = (np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (case.x, case.w, case.dy))
    for result, expected in ((post.conv2d(x, w, layout="nhwc", **case.options), y),
                             (post.conv_dgrad(dy, w, case.image, layout="nhwc", **case.options), dx),
                             (post.conv_wgrad(x, dy, case.taps, layout="nhwc", **case.options), dw)):
        np.testing.assert_array_equal(result, np.moveaxis(expected, 1, -1))


@post.epilogue
def step(acc, w: post.tile, decay: post.row, gain: post.col, rate: post.scalar):
    w_next = w - rate * (acc * gain + decay)
    return {"w_next": w_next, "norm": post.sum(acc * acc, axis=1)}


def test_epilogue_of_a_weight_gradient():
    case = CASES[1]
    *_, dw = case.sums()
    decay, gain = drawn(*case.w.shape[1:], seed=5), drawn(case.w.shape[0], seed=6)
    for order in (np.asarray, last):
        w, place = order(case.w), last(np.zeros_like(case.w))
        out = post.conv_wgrad(case.x, case.dy, case.taps, epilogue=step, w=w, decay=decay, gain=gain, rate=0.5,
                              out={"w_next": place}, **case.options)
        expected = case.w - 0.5 * (dw * gain[:, None, None, None] + decay)
        np.testing.assert_array_equal(out.w_next, expected)
        np.testing.assert_array_equal(place, expected)
        np.testing.assert_allclose(out.norm, (dw * dw).sum((1, 2, 3)))


def test_plan():
    case = CASES[1]
    y, dx, _ = case.sums()

    @post.epilogue
    def f(acc, bias: post.row):
        return post.relu(acc + bias)

    bias = np.arange(6, dtype=np.float32)
    conv = post.Conv(**case.options)
    plan = conv.plan(case.x, case.w, epilogue=f, bias=bias)
    call = plan.bind(case.x, case.w, bias=bias)
    for _ in range(2):
        np.testing.assert_array_equal(call(), np.maximum(y + bias[:, None, None], 0))
    assert all(c.error_over_bound <= 1 for c in plan.verify(case.x, case.w, bias=bias))
    assert "A  N·P·Q x R·S·C  of X" in plan.explain("loops")
    assert conv.supports(case.x, case.w, epilogue=f, bias=post.row)
    dgrad = post.ConvDgrad(case.image, **case.options)
    np.testing.assert_array_equal(dgrad.plan(case.dy, case.w).bind(case.dy, case.w)(), dx)
    with pytest.raises(post.Error, match="the plan is for"):
        post.Conv(padding="same").plan(case.x, case.w).bind(case.x, drawn(6, 4, 5, 5))


def test_explains_by_the_arrays_shapes():
    x, w = (8, 32, 20, 20), (64, 32, 3, 3)
    plan = post.Conv().plan(np.zeros(x, np.float32), np.zeros(w, np.float32), target="portable")
    text = plan.explain(shapes=(x, w))
    assert "(8, 32, 20, 20)" in text and "(64, 32, 3, 3)" in text and "M = 324, N = 64, K = 288, batch = 8\n" in text
    assert "(N, C, H, W)" in plan.explain(m=324, n=64, k=288)
    last = post.Conv(layout="nhwc")
    other = last.plan(np.zeros((8, 20, 20, 32), np.float32), np.zeros((64, 3, 3, 32), np.float32), target="portable")
    assert other.explain(shapes=((8, 20, 20, 32), (64, 3, 3, 32))) == text
    with pytest.raises(post.Error, match="channels"):
        plan.explain(shapes=(x, (64, 16, 3, 3)))


def test_explains_by_how_the_arrays_lie():
    wide, w = np.zeros((2, 72, 16, 16), np.float16), np.zeros((64, 3, 3, 64), np.float16).transpose(0, 3, 1, 2)
    last = np.ascontiguousarray(wide.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    plan = post.Conv(padding=1).plan(post.f16, post.f16, target="sm_90a")

    def text(x):
        return plan.explain("source", shapes=(x, w))

    x = wide[:, :64]
    contiguous = np.ascontiguousarray(last[:, :64].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    assert text(contiguous) == plan.source(shapes=(x.shape, w.shape))
    assert text(x) != text(contiguous) and plan.source(shapes=(x, w)) == text(x)
    assert text(last[:, :64]) == text(contiguous) != text(last[:, 1:65])  # rows of whole 16 bytes; between these
    rows = post.Conv(padding=1, layout="nhwc").plan(post.f16, post.f16, target="sm_90a")
    assert rows.source(shapes=(x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1))) == text(x)
    assert post.Conv().plan(np.zeros((1, 4, 5, 5), np.float32), np.zeros((4, 4, 3, 3), np.float32)).prepare(
        (np.zeros((1, 4, 9, 5), np.float32)[:, :, ::-2], np.zeros((4, 4, 3, 3), np.float32))) is None
    with pytest.raises(post.Error, match="dtype|f32"):
        plan.explain(shapes=(x.astype(np.float32), w))


def test_refuses():
    x, w, dy = drawn(1, 4, 5, 5), drawn(4, 2, 3, 3), drawn(1, 4, 3, 3)
    for call, text in [(lambda: post.conv2d(x, w), "filters of 2 channels"), (lambda: post.conv2d(x, w, groups=3), "groups do not divide"),
                       (lambda: post.conv2d(x, w, groups="2"), "groups='2'"), (lambda: post.conv2d(x, w, layout="cl"), "layout='cl'"),
                       (lambda: post.conv1d(x, w), "x has 4 axes"), (lambda: post.conv_dgrad(dy, drawn(4, 2, 3, 3), (9, 5)), "no convolution of an image"),
                       (lambda: post.conv_dgrad(dy, w, (5, 5, 5)), "input_size="), (lambda: post.conv_wgrad(x, dy, (2, 3)), "a filter of 2"),
                       (lambda: post.conv_dgrad(dy[0], w, (5, 5)), "dy has 3 axes and w 4"), (lambda: post.conv2d(x, w, padding="full"), "padding='full'"),
                       (lambda: post.conv2d(x, w, stride=2**40), "stride is 1099511627776, beyond"), (lambda: post.conv_wgrad(x, dy, (-2**40, 3)), "size is -1099511627776,"),
                       # An array is no number, and compares with nothing as one.
                       (lambda: post.conv2d(x, w, padding=np.array([1, 1])), "padding=array"), (lambda: post.conv2d(x, w, stride=np.array([1, 1])), "stride=array"),
                       (lambda: post.conv2d(x, w, groups=np.array([1, 1])), "groups=array"), (lambda: post.conv2d(x, w, layout=np.array(["nchw"] * 2)), "layout=array"),
                       (lambda: post.conv_dgrad(dy, w, np.array([5, 5])), "input_size=array"), (lambda: post.conv_wgrad(x, dy, np.array([3, 3])), "filter_size=array")]:
        with pytest.raises(post.Error, match=text):
            call()


@post.epilogue
def numbered(acc):
    return acc * 0 + post.z_index() * 10000 + post.p_index() * 100 + post.q_index()


def test_numbers_pixels():
    x, w = drawn(2, 3, 7, 9), drawn(4, 3, 3, 3, seed=1)
    p, q = np.meshgrid(range(5), range(7), indexing="ij")
    expected = np.broadcast_to(100 * p + q, (2, 4, 5, 7))
    np.testing.assert_array_equal(post.conv2d(x, w, epilogue=numbered), expected)
    with post.pixels(5, 7):  # the same function on plain arrays, an image at a time
        np.testing.assert_array_equal(numbered(np.ones((35, 4), np.float32)), expected[0].reshape(4, 35).T)
    with pytest.raises(post.UsageError, match="post.pixels"):
        numbered(np.ones((35, 4), np.float32))
    with post.pixels(2, 5, 7), pytest.raises(post.OperandError, match="70 pixels, but there are 35 rows"):
        numbered(np.ones((35, 4), np.float32))
    with pytest.raises(post.UsageError, match="post.pixels"), post.pixels(0, 3):
        pass
    with pytest.raises(post.UnsupportedError, match="no pixels"):
        post.matmul(np.ones((3, 3), np.float32), np.ones((3, 3), np.float32), epilogue=numbered)
    with pytest.raises(post.UnsupportedError, match="no pixels"):
        post.conv_wgrad(x, drawn(2, 4, 5, 7), (3, 3), epilogue=numbered)
