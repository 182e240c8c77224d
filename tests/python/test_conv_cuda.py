"""Convolutions of torch's and cupy's arrays on a GPU: what is copied at each run, the stream of a call, and how arrays lie."""
import numpy as np
import pytest

import postlude as post


@pytest.fixture(params=["torch", "cupy"])
def framework(request):
    """The module, where it has a GPU."""
    found = pytest.importorskip(request.param)
    if not found.cuda.is_available():
        pytest.skip("there is no GPU")
    return found


def drawn(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).integers(-2, 3, shape).astype(np.float32)


def on_device(framework, x):
    """In f16, which holds all that these tests compute."""
    x = x.astype(np.float16)
    return framework.from_numpy(x).cuda() if framework.__name__ == "torch" else framework.asarray(x)


def on_host(x):
    return x.cpu().float().numpy() if hasattr(x, "cpu") else x.get().astype(np.float32)


def empty(framework, *shape):
    return on_device(framework, np.zeros(shape, np.float32))


@post.epilogue
def tile(acc, r: post.tile):
    return acc + r


@post.epilogue
def col(acc, r: post.col):
    return acc + r


x, w, dy = drawn(2, 8, 7, 7), drawn(16, 8, 3, 3), drawn(2, 16, 5, 5)

# A loop, its arrays, an epilogue, an array that its operand is a part of, and that part: one whose lines are copied.
COPIED = [(post.ConvWgrad((3, 3)), (x, dy), tile, (16, 8, 3, 3), ...),
          (post.Conv(), (x, w), tile, (2, 16, 5, 6), (..., slice(5))),
          (post.Conv(), (x, w), col, (2, 5, 6), (..., slice(5)))]


def expected(loop, arrays, f, r):
    return loop.plan(*arrays, epilogue=f, r=r).bind(*arrays, r=r)()


@pytest.mark.parametrize("loop, arrays, f, whole, cut", COPIED)
def test_a_run_copies_what_the_arrays_hold_then(framework, loop, arrays, f, whole, cut):
    given, host = [on_device(framework, array) for array in arrays], drawn(*whole, seed=1)
    big = on_device(framework, host)
    r = big[cut]
    call = loop.plan(*given, epilogue=f, r=r).bind(*given, r=r)
    assert "r is copied before each run" in call.describe()
    for more in (0, 10):
        np.testing.assert_array_equal(on_host(call()) - more, expected(loop, arrays, f, np.ascontiguousarray(host[cut])))
        big += 10


def side_stream(framework):
    """A stream, its number, what works on it, and what waits for it."""
    stream = framework.cuda.Stream() if framework.__name__ == "torch" else framework.cuda.Stream(non_blocking=True)
    torch = framework.__name__ == "torch"
    return stream, stream.cuda_stream if torch else stream.ptr, lambda: framework.cuda.stream(stream) if torch else stream


def settle(framework):
    framework.cuda.synchronize() if framework.__name__ == "torch" else framework.cuda.Device().synchronize()


def keep_busy(framework):
    """The current stream, for some milliseconds."""
    if framework.__name__ == "torch":
        framework.cuda._sleep(20_000_000)
    else:
        framework.RawKernel('extern "C" __global__ void f() { long long t = clock64() + 20000000; while (clock64() < t); }', "f")((1,), (1,), ())


@pytest.mark.parametrize("loop, arrays, f, whole, cut", COPIED)
def test_copies_are_made_in_the_calls_stream(framework, loop, arrays, f, whole, cut):
    given, host = [on_device(framework, array) for array in arrays], drawn(*whole, seed=2)
    big = on_device(framework, host)
    r = big[cut]
    call = loop.plan(*given, epilogue=f, r=r).bind(*given, r=r)
    stream, number, on = side_stream(framework)
    call(stream=number)
    settle(framework)
    for more in (10, 20):  # what is written late in this stream is what its call reads
        with on():
            keep_busy(framework)
            big += 10
        result = call(stream=number)
        with on():
            kept = result + 0
        settle(framework)
        np.testing.assert_array_equal(on_host(kept) - more, expected(loop, arrays, f, np.ascontiguousarray(host[cut])))


def test_outputs_are_copied_back_in_the_calls_stream(framework):
    given = [on_device(framework, array) for array in (x, w)]
    out = empty(framework, 2, 16, 5, 5)  # planes of channels, which no kernel writes
    call = post.Conv().plan(*given).bind(*given, out=out)
    if "copied back" not in call.describe():
        pytest.skip("planes are written as they lie")
    _, number, on = side_stream(framework)
    for factor in (1, 2):
        with on():
            keep_busy(framework)
            given[0] *= factor
        result = call(stream=number)
        with on():
            kept = out + 0
        settle(framework)
        assert result is out
        np.testing.assert_array_equal(on_host(kept), factor * post.conv2d(x, w))


def test_a_call_joins_the_stream_that_is_current_when_it_binds(framework):
    given, big = [on_device(framework, array) for array in (x, w)], on_device(framework, drawn(2, 16, 5, 6, seed=3))
    r = big[..., :5]
    call = post.Conv().plan(*given, epilogue=tile, r=r).bind(*given, r=r)
    keep_busy(framework)
    big += 10  # in the framework's own stream: the first run elsewhere waits for it
    _, number, on = side_stream(framework)
    result = call(stream=number)
    with on():
        kept = result + 0
    settle(framework)
    np.testing.assert_array_equal(on_host(kept) - 10, expected(post.Conv(), (x, w), tile, drawn(2, 16, 5, 6, seed=3)[..., :5].copy()))


def test_explains_what_is_bound(framework):
    f = post.parse("def f(acc):\n    D: f16 = acc\n    return D\n")
    wide, filters = on_device(framework, drawn(2, 72, 16, 16)), on_device(framework, drawn(64, 64, 3, 3))
    torch = framework.__name__ == "torch"
    last = (lambda a: a.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)) if torch else (
        lambda a: framework.ascontiguousarray(a.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2))
    told = set()
    for image in (last(wide[:, :64]), last(wide)[:, :64], wide[:, :64], last(wide)[:, 1:65]):
        plan = post.Conv(padding=1).plan(image, filters, epilogue=f)
        text = plan.explain("schedule", shapes=(image, filters))
        plan.prepare((image, filters))
        call = plan.bind(image, filters)
        chosen = next(line for line in text.splitlines() if "  chosen" in line).split("  ")[0]
        assert call.describe().startswith(chosen), (call.describe(), text)
        assert ("images are repacked" in text) == ("images repacked" in call.describe())
        told.add(text)
    assert len(told) > 1
