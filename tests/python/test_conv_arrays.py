"""What a convolution's operands and outputs may be, how they lie, and that a bound call reads them anew."""
import numpy as np
import pytest

import postlude as post


def drawn(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(np.float32)


@post.epilogue
def tile(acc, r: post.tile):
    return acc + r


@post.epilogue
def row(acc, r: post.row):
    return acc + r


@post.epilogue
def col(acc, r: post.col):
    return acc + r


@post.epilogue
def bare(acc, r):
    return acc + r


x, w, dy = drawn(2, 4, 5, 5), drawn(6, 4, 3, 3), drawn(2, 6, 3, 3)
x1, w1, dy1 = drawn(2, 4, 10), drawn(3, 4, 3), drawn(2, 3, 8)


@pytest.mark.parametrize("loop, arrays, f, whole, cut", [
    (post.ConvWgrad((3, 3)), (x, dy), tile, (6, 4, 3, 3), ...), (post.ConvWgrad((3, 3)), (x, dy), row, (4, 3, 3), ...),
    (post.ConvWgrad(3), (x1, dy1), tile, (3, 4, 3), ...), (post.Conv(), (x, w), tile, (2, 6, 3, 4), (..., slice(3))),
    (post.Conv(), (x, w), col, (2, 3, 4), (..., slice(3))), (post.Conv(), (x, w), tile, (6, 3, 4), (..., slice(3)))])
def test_a_bound_call_reads_what_the_arrays_hold_then(loop, arrays, f, whole, cut):
    big = drawn(*whole, seed=1)
    r = big[cut]
    call = loop.plan(*arrays, epilogue=f, r=r).bind(*arrays, r=r)
    assert "r is copied before each run" in call.describe()
    before = np.array(call())
    big += 10
    np.testing.assert_array_equal(call(), before + 10)


def test_says_nothing_of_copies_where_there_are_none():
    r = drawn(2, 6, 3, 3)
    call = post.Conv().plan(x, w, epilogue=tile, r=r).bind(x, w, r=r)
    assert "copied" not in call.describe()


def test_a_weight_gradient_updates_contiguous_weights():
    @post.epilogue
    def step(acc, w: post.tile):
        w_next = w - acc
        return {"w_next": w_next, "square": w_next * w_next}

    for arrays, taps, shape in (((x, dy), (3, 3), (6, 4, 3, 3)), ((x1, dy1), 3, (3, 4, 3)), ((x[:0], dy[:0]), (3, 3), (6, 4, 3, 3))):
        weights, square = drawn(*shape), np.zeros(shape, np.float32)
        before, dw = weights.copy(), post.conv_wgrad(*arrays, taps)
        result = post.conv_wgrad(*arrays, taps, epilogue=step, w=weights, out=(weights, square))
        assert result.w_next is weights and result.square is square
        np.testing.assert_array_equal(weights, before - dw)
        call = post.ConvWgrad(taps).plan(*arrays, epilogue=step, w=weights).bind(*arrays, w=weights, out={"w_next": weights})
        assert "w_next is copied back behind it" in call.describe()
        call(), call()
        np.testing.assert_array_equal(weights, before - 3 * dw)
        assert all(c.error_over_bound <= 1 for c in post.ConvWgrad(taps).plan(*arrays, epilogue=step, w=before).verify(*arrays, w=before, out=(square,)))
        np.testing.assert_array_equal(square, before - dw)
    frozen = np.zeros((6, 4, 3, 3), np.float32)
    frozen.flags.writeable = False
    both = np.zeros(6 * 36 + 10, np.float32)
    for out, text in ((frozen, "read-only"), (np.zeros((6, 4, 3, 4), np.float32)[..., :3], "do not lie")):
        with pytest.raises(post.Error, match=text):
            post.conv_wgrad(x, dy, (3, 3), out=out)
    with pytest.raises(post.Error, match="'w_next' and 'square' overlap"):
        post.conv_wgrad(x, dy, (3, 3), epilogue=step, w=w, out=(both[:216].reshape(w.shape), both[10:].reshape(w.shape)))


@pytest.mark.parametrize("f, shape", [(tile, (3, 3, 4)), (tile, (3, 1, 12)), (row, (3, 4)), (row, (2, 6)), (bare, (3, 3, 4)), (bare, (3, 4))])
def test_one_axis_of_taps_is_checked_too(f, shape):
    with pytest.raises(post.Error, match=r"taps \(3,\) of 4 channels") as caught:
        post.conv_wgrad(x1, dy1, 3, epilogue=f, r=drawn(*shape))
    assert caught.value.code == "PL0306"
    with pytest.raises(post.Error, match="taps"):
        post.conv_wgrad(x1, dy1, 3, out=np.zeros((3, 4, 3), np.float32).transpose(0, 2, 1))
    np.testing.assert_array_equal(post.conv_wgrad(x1, dy1, 3, epilogue=f, r=np.ones((3, 4, 3)[3 - len(shape):], np.float32)),
                                  post.conv_wgrad(x1, dy1, 3) + 1)


def test_one_axis_of_pixels_is_checked_in_torchs_order():
    with pytest.raises(post.Error, match=r"'r' has shape \(2, 8, 3\), but the pixels of the output are \(8,\)") as caught:
        post.conv1d(x1, w1, epilogue=tile, r=drawn(2, 8, 3))
    assert "in the order of `layout`" in caught.value.hint


@post.epilogue
def grouped(acc):
    return post.max(acc, axis=0, group=4)


@post.epilogue
def scaled(acc, s: post.tile):
    return post.max(acc, axis=0, group=4) * s


@pytest.mark.parametrize("filters", [2, 3])
def test_statistics_in_groups_of_pixels_are_no_images(filters):
    w = drawn(filters, 4, 3)
    y = post.conv1d(x1, w)
    expected = y.reshape(2, filters, 2, 4).max(-1).transpose(0, 2, 1)
    out, s = np.zeros(expected.shape, np.float32), drawn(*expected.shape)
    for result in (post.conv1d(x1, w, epilogue=grouped), post.conv1d(x1, w, epilogue=grouped, out=out), out):
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(post.conv1d(x1, w, epilogue=scaled, s=s), expected * s)
    for image, groups in (((5, 5), 3), ((3, 4), 1), ((3, 3), 1)):  # the rank is the same for one pixel
        assert post.conv2d(drawn(2, 4, *image), drawn(6, 4, 3, 3), epilogue=grouped).shape == (2, groups, 6)
    of_taps = post.epilogue(lambda acc: post.max(acc, axis=1, group=4))
    assert post.conv_wgrad(drawn(2, 1, 5), drawn(2, 3, 5), 1, epilogue=of_taps).shape == (3, 1)


def test_one_axis_without_an_annotation_is_a_row():
    many, bias = drawn(6, 4, 5, 5), np.arange(6, dtype=np.float32)
    for images in (x, many):  # as many images as filters, too
        np.testing.assert_array_equal(post.conv2d(images, w, epilogue=bare, r=bias), post.conv2d(images, w) + bias[:, None, None])
        plan = post.Conv().plan(images, w, epilogue=bare, r=bias)
        np.testing.assert_array_equal(plan.bind(images, w, r=bias)(), post.conv2d(images, w) + bias[:, None, None])
    a, b = drawn(6, 4, 5), drawn(6, 5, 6)
    np.testing.assert_array_equal(post.matmul(a, b, epilogue=bare, r=bias), post.matmul(a, b) + bias)
    np.testing.assert_array_equal(bare(a @ b, bias), a @ b + bias)
    assert post.plan(a, b, epilogue=bare, r=post.scalar).slots[2][1] == 0
    with pytest.raises(post.Error, match="wants N"):
        post.conv2d(x, w, epilogue=bare, r=drawn(2))


def test_one_image_of_an_operand_is_that_of_all():
    y = post.conv2d(x, w)
    one = drawn(6, 3, 3)
    for f in (tile, bare):
        for r in (one, one[None]):
            np.testing.assert_array_equal(post.conv2d(x, w, epilogue=f, r=r), y + one)
    for layout, turned in (("nchw", one), ("nhwc", one.transpose(1, 2, 0))):
        given = (x, w) if layout == "nchw" else (x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1))
        result = post.conv2d(*given, layout=layout, epilogue=tile, r=turned)
        np.testing.assert_array_equal(result if layout == "nchw" else result.transpose(0, 3, 1, 2), y + one)
    mask = drawn(3, 3)
    np.testing.assert_array_equal(post.conv2d(x, w, epilogue=col, r=mask), y + mask)
    line = drawn(3, 8)
    np.testing.assert_array_equal(post.conv1d(x1, w1, epilogue=tile, r=line), post.conv1d(x1, w1) + line)
    with pytest.raises(post.Error, match=r"'r' has shape \(6, 3, 2\), but the pixels"):
        post.conv2d(x, w, epilogue=tile, r=drawn(6, 3, 2))
    with pytest.raises(post.Error):
        post.conv2d(x, w, out=np.zeros((1, 6, 3, 3), np.float32))


def test_sums_over_images_are_images():
    most = post.epilogue(lambda acc: post.sum(acc, axis=1, batch=True))
    expected = post.conv2d(x, w).sum((0, 1))
    out = np.zeros((3, 3), np.float32)
    for result in (post.conv2d(x, w, epilogue=most), post.conv2d(x, w, epilogue=most, out=out), out):
        np.testing.assert_array_equal(result, expected)


class Described:
    def __init__(self, array):
        self.array, self.__array_interface__ = array, array.__array_interface__


class Exported:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("kind", [Described, Exported, memoryview])
def test_takes_what_exports_an_array(kind):
    r, out = drawn(2, 6, 3, 3), np.zeros((2, 6, 3, 3), np.float32)
    expected = post.conv2d(x, w) + r
    np.testing.assert_array_equal(post.conv2d(kind(x), kind(w), epilogue=tile, r=kind(r)), expected)
    conv = post.Conv()
    plan = conv.plan(kind(x), kind(w), epilogue=tile, r=kind(r))
    np.testing.assert_array_equal(plan.bind(kind(x), plan.pack(kind(w)), r=kind(r))(), expected)
    assert conv.supports(kind(x), kind(w), epilogue=tile, r=kind(r))
    if kind is Described:
        post.conv2d(x, w, epilogue=tile, r=r, out=kind(out))
        np.testing.assert_array_equal(out, expected)


def test_an_export_that_fails_is_refused():
    class Broken:
        def __dlpack__(self, **options):
            raise BufferError("no")

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(post.OperandError, match="'x' cannot be read through DLPack: no"):
        post.conv2d(Broken(), w)


def test_operands_named_as_options():
    for name in ("stride", "padding", "dilation", "groups", "layout"):
        f = post.parse(f"def f(acc, {name}: scalar):\n    return acc * {name}\n")
        for call in (lambda: post.conv1d(x1, w1, epilogue=f), lambda: post.conv2d(x, w, epilogue=f), lambda: post.conv_dgrad(dy, w, (5, 5), epilogue=f),
                     lambda: post.conv_wgrad(x, dy, (3, 3), epilogue=f)):
            with pytest.raises(post.Error, match=f"cannot be called '{name}' here, which is a keyword of post.conv"):
                call()
        np.testing.assert_array_equal(post.Conv()(x, w, epilogue=f, **{name: 2.0}), 2 * post.conv2d(x, w))


def test_names_that_are_neither_options_nor_operands():
    for wrong, said in (("pad", "the options: stride, padding"), ("strides", "Did you mean 'stride'"), ("sacle", "Did you mean 'scale'")):
        f = post.parse("def f(acc, scale: scalar):\n    return acc * scale\n")
        for call in (lambda: post.conv2d(x, w, epilogue=f, **{wrong: 1}), lambda: post.conv_wgrad(x, dy, (3, 3), epilogue=f, **{wrong: 1})):
            with pytest.raises(post.OperandError, match=f"no operand is called '{wrong}', nor an option of post.conv") as refusal:
                call()
            assert said in refusal.value.hint
    with pytest.raises(post.UsageError) as refusal:
        post.conv2d(x, w, padding="SAME")
    assert '"same" or "valid"' in refusal.value.hint


def test_a_plan_speaks_of_images():
    plan = post.Conv(padding=1).plan(x, w, epilogue=tile, r=post.tile)
    shapes = (x.shape, w.shape)
    assert plan.slots == plan.plan.slots and plan.target.device == post.Target.cpu().device and "acc" in str(plan.graph)
    assert len(plan.phases()) == len(plan.plan.phases()) and plan.source(shapes=shapes) == plan.explain("source", shapes=shapes)
    assert plan.prepare(shapes, ((1, 2, 9, 9), (3, 2, 1, 1)), threads=2) is None and plan.prepare() is None
    assert post.ConvWgrad((3, 3)).plan(x, dy).prepare((x.shape, dy.shape)) is None
    assert post.Conv(layout="nhwc").plan(x, w).prepare(((2, 5, 5, 4), (6, 3, 3, 4))) is None
    with pytest.raises(post.Error, match="channels"):
        plan.prepare((x.shape, (6, 3, 3, 3)))
    for last in ("nchw", "nhwc"):
        plan = post.Conv(layout=last).plan(x, w)
        for wrong in (3, "ab", ("ab", "cd"), ((), ()), (x.shape,), ((2, 4, 5.5, 5), w.shape), ((2, 4, 2**70, 5), w.shape), (1, 2), ((1, 2, 3), w.shape)):
            for call in (lambda: plan.explain(shapes=wrong), lambda: plan.prepare(wrong), lambda: plan.source(shapes=wrong)):
                with pytest.raises(post.Error):
                    call()


def test_plans_of_dtypes():
    np.testing.assert_array_equal(post.Conv(padding=1).plan(post.f32, "f32").bind(x, w)(), post.conv2d(x, w, padding=1))
    np.testing.assert_array_equal(post.Conv(stride=(2,)).plan(post.f32, post.f32, epilogue=tile, r=post.tile).bind(x1, w1, r=drawn(3, 4))(),
                                  post.conv1d(x1, w1, stride=2) + drawn(3, 4))
    np.testing.assert_array_equal(post.ConvDgrad((5, 5)).plan(np.float32, np.float32).bind(dy, w)(), post.conv_dgrad(dy, w, (5, 5)))
    np.testing.assert_array_equal(post.ConvWgrad(3, stride=(1,)).plan(post.f32, post.f32).bind(x1, dy1)(), post.conv_wgrad(x1, dy1, 3))
    assert post.Conv().supports(post.f16, post.f16, target="sm_90a") and not post.Conv().supports(post.i32, post.f32)
    for loop in (post.Conv(padding="same"), post.ConvDgrad((5, 5), stride=2)):
        with pytest.raises(post.Error, match="depends on their sizes"):
            loop.plan(post.f32, post.f32)
        assert "depends on their sizes" in repr(loop.supports(post.f32, post.f32))
    assert "stride is 0" in repr(post.Conv(stride=0).supports(x, w))


def test_words_of_packed_filters():
    plan, other = post.Conv(padding=1).plan(x, w), post.Conv().plan(x, w)
    packed = plan.pack(w)
    with pytest.raises(post.UsageError, match="W was packed for another plan"):
        other.bind(x, packed)
    with pytest.raises(post.UsageError, match="the reference reads the array itself"):
        plan.verify(x, packed)
