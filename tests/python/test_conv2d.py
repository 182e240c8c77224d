"""post.conv2d against sums that are written out."""
import numpy as np
import pytest

import postlude as post


def convolved(x, w, stride, padding, dilation):
    (n, _, _, _), (k, _, r, s) = x.shape, w.shape
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *padding))
    p, q = ((x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(2))
    out = np.zeros((n, k, p, q))
    for i in range(r):
        for j in range(s):
            y, z = i * dilation[0], j * dilation[1]
            seen = x[:, :, y : y + (p - 1) * stride[0] + 1 : stride[0], z : z + (q - 1) * stride[1] + 1 : stride[1]]
            out += np.einsum("nchw,kc->nkhw", seen, w[:, :, i, j].astype(np.float64))
    return out


def drawn(*shape, last=False):
    rng = np.random.default_rng(sum(shape))
    whole = rng.integers(-2, 3, shape).astype(np.float32)
    return np.ascontiguousarray(whole.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) if last else whole


@post.epilogue
def residual(acc, bias: post.row, shortcut: post.tile):
    D: post.f32 = post.relu(acc + bias + shortcut)
    pooled: post.f32 = post.mean(D, axis=0)
    return D, pooled


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("stride, padding, dilation, around", [
    (1, 0, 1, ((0, 0), (0, 0))), (2, 1, 1, ((1, 1), (1, 1))), ((1, 2), (0, 2), (2, 1), ((0, 0), (2, 2))),
    (1, ((1, 0), (2, 3)), 1, ((1, 0), (2, 3))), (1, "same", 1, ((1, 1), (0, 1))), (2, "same", 1, ((1, 1), (0, 1)))])
def test_is_the_sum(stride, padding, dilation, around, last):
    x, w = drawn(2, 5, 9, 7, last=last), drawn(6, 5, 3, 2, last=last)
    pair = lambda given: given if isinstance(given, tuple) else (given, given)
    expected = convolved(x, w, pair(stride), around, pair(dilation))
    np.testing.assert_array_equal(post.conv2d(x, w, stride=stride, padding=padding, dilation=dilation), expected)

    bias, shortcut = np.arange(6, dtype=np.float32), drawn(*expected.shape, last=last)
    result = post.conv2d(x, w, stride=stride, padding=padding, dilation=dilation, epilogue=residual, bias=bias, shortcut=shortcut)
    after = np.maximum(expected + bias[:, None, None] + shortcut, 0)
    np.testing.assert_array_equal(result.D, after)
    np.testing.assert_allclose(result.pooled, after.mean(axis=(2, 3)), rtol=1e-6)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("last", [False, True])
def test_takes_filters_packed_before(last, layout):
    x, w = drawn(2, 5, 9, 7, last=last), drawn(6, 5, 3, 2, last=last)
    if layout == "nhwc":
        x, w = x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)
    conv = post.Conv(stride=(1, 2), padding="same", layout=layout)
    plan = conv.plan(x, w)
    packed = plan.pack(w)
    assert packed.shape == (6, 5, 3, 2)
    np.testing.assert_array_equal(plan.bind(x, packed)(), plan.bind(x, w)())
    with pytest.raises(post.Error, match="can be packed"):
        post.Conv(groups=5).plan(x, drawn(10, 1, 3, 2)).pack(drawn(10, 1, 3, 2))
    with pytest.raises(post.Error, match="w has 0 axes|W"):
        plan.pack(None)


def test_refuses():
    x, w = drawn(1, 2, 4, 4), drawn(3, 2, 3, 3)
    for arguments, text in [({"stride": 0}, "stride is 0"), ({"padding": -1}, "padding is -1"), ({"dilation": 2}, "spans 5 rows"),
                            ({"stride": "2"}, "stride='2'"), ({"padding": ((1, 1), 1)}, "padding="), ({"stride": (1, 2, 3)}, "stride="),
                            ({"target": "sm_70"}, "sm_80 or newer")]:
        with pytest.raises(post.Error, match=text.replace("(", "\\(")):
            post.conv2d(x, w, **arguments)
    with pytest.raises(post.Error, match="filters of 2 channels"):
        post.conv2d(drawn(1, 3, 4, 4), w)
    with pytest.raises(post.Error, match="x has 3 axes"):
        post.conv2d(x[0], w)


def test_refuses_tiles_of_as_many_other_pixels():
    @post.epilogue
    def block(acc, shortcut: post.tile, mask: post.col):
        return acc * mask + shortcut

    @post.epilogue
    def step(acc, old: post.tile, rate: post.row):
        return old - acc * rate

    x, w = drawn(2, 3, 6, 5), drawn(4, 3, 3, 3)
    right = {"shortcut": drawn(2, 4, 6, 5), "mask": drawn(2, 6, 5)}
    for turned in ({"shortcut": drawn(2, 4, 5, 6)}, {"mask": drawn(2, 5, 6)}, {"out": np.zeros((2, 4, 5, 6), np.float32)}):
        with pytest.raises(post.Error, match=r"but the pixels of the output are \(6, 5\)") as caught:
            post.conv2d(x, w, padding=1, epilogue=block, **{**right, **turned})
        assert caught.value.code == "PL0306"
    dy, right = drawn(2, 4, 6, 7), {"old": drawn(4, 3, 3, 1), "rate": drawn(3, 3, 1)}
    assert post.conv_wgrad(x, dy, (3, 1), padding=1, epilogue=step, **right).shape == (4, 3, 3, 1)
    for turned in ({"old": drawn(4, 3, 1, 3)}, {"rate": drawn(3, 1, 3)}):
        with pytest.raises(post.Error, match=r"taps \(3, 1\) of 3 channels"):
            post.conv_wgrad(x, dy, (3, 1), padding=1, epilogue=step, **{**right, **turned})


def test_takes_no_image():
    assert post.conv2d(drawn(0, 2, 4, 4), drawn(3, 2, 3, 3)).shape == (0, 3, 2, 2)


def test_every_class_of_operand_and_output():
    @post.epilogue
    def block(acc, bias: post.row, shortcut: post.tile, mask: post.col, gain: post.scalar):
        D = post.relu((acc + bias) * gain + shortcut) * mask
        return {"D": D, "pooled": post.mean(D, axis=0), "most": post.max(D, axis=1), "sums": post.sum(D, axis=0, batch=True)}

    x, w, bias, shortcut, mask = drawn(4, 6, 8, 7), drawn(10, 6, 3, 3), drawn(4, 10), drawn(4, 10, 8, 7), drawn(4, 8, 7)
    acc = convolved(x, w, (1, 1), ((1, 1), (1, 1)), (1, 1))
    d = np.maximum((acc + bias[:, :, None, None]) * 0.5 + shortcut, 0) * mask[:, None]
    for s in (shortcut, drawn(4, 10, 8, 7, last=True)):
        result = post.conv2d(x, w, padding=1, epilogue=block, bias=bias, shortcut=s, mask=mask, gain=0.5)
        np.testing.assert_array_equal(result.D, d)
        np.testing.assert_allclose(result.pooled, d.mean((2, 3)), rtol=1e-6)
        np.testing.assert_array_equal(result.most, d.max(1))
        np.testing.assert_allclose(result.sums, d.sum((0, 2, 3)), rtol=1e-6)
    for place in (np.empty_like(shortcut), drawn(4, 10, 8, 7, last=True)):
        again = post.conv2d(x, w, padding=1, epilogue=block, bias=bias, shortcut=shortcut, mask=mask, gain=0.5, out={"D": place})
        np.testing.assert_array_equal(place, d)
        assert np.shares_memory(again.D, place)
        post.conv2d(x, w, padding=1, epilogue=block, bias=bias, shortcut=shortcut, mask=mask, gain=0.5, out=(place,))
        np.testing.assert_array_equal(place, d)


def test_out_of_one_output():
    x, w = drawn(2, 3, 5, 5), drawn(4, 3, 2, 2)
    place = np.zeros((2, 4, 4, 4), np.float32)
    assert np.shares_memory(post.conv2d(x, w, out=place, target=post.Target.cpu(2)), place)
    np.testing.assert_array_equal(place, convolved(x, w, (1, 1), ((0, 0), (0, 0)), (1, 1)))
    for wrong, code in ((np.zeros((2, 4, 4, 8), np.float32)[..., ::2][:, :, ::-1], "PL0307"), (np.zeros((2, 4, 4, 5), np.float32), "PL0306"),
                        (np.zeros((2, 4, 16), np.float32), "PL0306")):
        with pytest.raises(post.Error) as caught:
            post.conv2d(x, w, out=wrong)
        assert caught.value.code == code, caught.value
