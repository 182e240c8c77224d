"""Arrays of other frameworks: in through DLPack, out as arrays of the same framework."""
import subprocess
import sys

import numpy as np
import pytest

import postlude as post


@post.epilogue
def f(acc, bias: post.row, label: post.col[post.i64]):
    D = post.where(post.n_index() == label, acc, acc + bias)
    top = post.argmax(D, axis=1)
    return D, top


def expected(a, b, bias, label):
    d = a @ b + np.where(np.arange(b.shape[1]) == label[:, None], 0, bias)
    return d, d.argmax(1)


@pytest.fixture
def arrays(rng):
    return (rng.integers(-4, 5, (6, 8)).astype(np.float32), rng.integers(-4, 5, (8, 10)).astype(np.float32),
            rng.integers(-4, 5, 10).astype(np.float32), rng.integers(0, 10, 6))


def test_threads_whose_allocator_gives_way():
    """A framework's allocator may let other threads in: shapes belong to their call. The framework is a toy of torch's surface."""
    program = """
import sys, threading, time, types
import numpy as np

class Tensor:
    requires_grad = False
    def __init__(self, array): self.array, self.ndim, self.shape, self.dtype = array, array.ndim, array.shape, "float32"
    def data_ptr(self): return self.array.ctypes.data
    def get_device(self): return -1
    def stride(self): return tuple(s // 4 for s in self.array.strides)

def empty(sizes, dtype):
    time.sleep(0.001)
    return Tensor(np.empty(sizes, np.float32))

sys.modules["torch"] = types.SimpleNamespace(Tensor=Tensor, empty=empty, full=None, is_grad_enabled=lambda: False, float32="float32",
                                             _C=types.SimpleNamespace(), __spec__=None)
import postlude as post

two = post.epilogue(lambda acc: {"D": acc, "total": post.sum(acc, axis=1)})
failed = []

def work(m):
    a = np.full((m, 4), 2, np.float32)
    try:
        for _ in range(50):
            d, total = post.matmul(Tensor(a), Tensor(a.T), epilogue=two)
            assert d.array.shape == (m, m) and (total.array == 16 * m).all()
    except BaseException as problem:
        failed.append(repr(problem))

threads = [threading.Thread(target=work, args=(m,)) for m in (3, 5)]
for t in threads: t.start()
for t in threads: t.join()
assert not failed, failed
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


class Exported:
    """An object of which only DLPack is known."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Temporary(Exported):
    """What it exports is a copy that nobody but the importer holds."""

    def __dlpack__(self, **keywords):
        return self.array.copy().__dlpack__(**keywords)


def test_numpy_dlpack(arrays):
    a, b, bias, label = arrays
    out = post.matmul(Exported(a), Exported(b.T.copy().T), epilogue=f, bias=Exported(bias), label=label)
    d, top = expected(*arrays)
    assert isinstance(out.D, np.ndarray)
    np.testing.assert_array_equal(out.D, d)
    np.testing.assert_array_equal(out.top, top)
    np.testing.assert_array_equal(np.from_dlpack(out.D), out.D)


def test_what_dlpack_exports_is_kept_as_long_as_it_is_read():
    x = np.full((3000, 3000), 2, np.float32)  # large enough to be returned to the system at once
    once = post.epilogue(lambda acc, bias: acc * 2 + bias)
    bias = np.ones(3000, np.float32)
    np.testing.assert_array_equal(post.stream(Temporary(x), epilogue=once, bias=Temporary(bias)), np.full_like(x, 5))
    call = post.plan(x, epilogue=once, bias=bias).bind(Temporary(x), bias=Temporary(bias))
    churn = [np.full((3000, 3000), i, np.float32) for i in range(3)]
    np.testing.assert_array_equal(call(), np.full_like(x, 5))
    assert len(churn) == 3


def test_what_dlpack_exports_is_given_back():
    import gc
    import weakref

    class Watched(np.ndarray):
        pass

    class Counted(Exported):
        def __dlpack__(self, **keywords):
            copy = self.array.copy().view(Watched)
            exported.append(weakref.ref(copy))
            return copy.__dlpack__(**keywords)

    exported = []
    x = np.ones((4, 4), np.float32)
    post.stream(Counted(x), epilogue=post.epilogue(lambda acc: acc + 1))
    with pytest.raises(post.OperandError):
        post.matmul(Counted(x), Counted(x[:3]))
    gc.collect()
    assert exported and all(reference() is None for reference in exported)


def test_an_output_through_dlpack_is_written_in_place_and_returned():
    x, y = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    out = Exported(y)
    assert post.stream(x, epilogue=post.epilogue(lambda acc: acc + 1), out=out) is out
    np.testing.assert_array_equal(y, x + 1)


def test_memory_that_dlpack_declares_read_only_is_read_and_never_written():
    x, y = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    y.flags.writeable = False
    once = post.epilogue(lambda acc: acc + 1)
    with pytest.raises(post.UsageError, match="read-only"):
        post.stream(x, epilogue=once, out=Exported(y))
    assert not y.any()
    np.testing.assert_array_equal(post.stream(Exported(y), epilogue=once), x)


def test_jax(jax, arrays):
    a, b, bias, label = arrays
    d, top = expected(*arrays)
    host = jax.devices("cpu")[0]  # jax's outputs are made on a CPU only
    x, y, z = (jax.device_put(array, host) for array in (a, b, bias))
    out = post.matmul(x, y, epilogue=f, bias=z, label=label)
    assert isinstance(out.D, jax.Array)
    np.testing.assert_array_equal(out.D, d)
    np.testing.assert_array_equal(out.top, top)
    half = post.matmul(x.astype("bfloat16"), y.astype("bfloat16"), epilogue=f, bias=z, label=label)
    assert half.D.dtype == jax.numpy.bfloat16
    np.testing.assert_array_equal(half.D.astype("float32"), d)
    with pytest.raises(post.UsageError, match="read-only"):
        post.matmul(x, y, out=jax.device_put(d, host))


def test_torch(torch, arrays):
    a, b, bias, label = map(torch.from_numpy, arrays)
    d, top = expected(*arrays)
    out = post.matmul(a, b, epilogue=f, bias=bias, label=label)
    assert isinstance(out.D, torch.Tensor)
    np.testing.assert_array_equal(out.D, d)
    np.testing.assert_array_equal(out.top, top)
    weight = b.T.contiguous()
    np.testing.assert_array_equal(post.matmul(a, weight.T, epilogue=f, bias=bias, label=label).D, d)
    half = post.matmul(a.bfloat16(), b.bfloat16(), epilogue=f, bias=bias.bfloat16(), label=label)
    assert half.D.dtype == torch.bfloat16
    np.testing.assert_array_equal(half.D.float(), d)
    plain = f(a @ b, bias, label)
    np.testing.assert_array_equal(plain.D, d)
    np.testing.assert_array_equal(plain.top, top)


def test_torch_plain_arrays_are_left_alone(torch):
    x = torch.tensor([[1.5, -2.75, 300.0]], dtype=torch.float64)
    assert post.cast(x, post.s8).tolist() == [[2, -3, 127]]
    assert post.cast(x.bfloat16(), post.s8).tolist() == [[2, -3, 127]]

    @post.epilogue
    def f(acc, bias: post.row):
        d = acc
        d += bias
        d *= 2
        return {"D": d, "same": acc}

    acc, bias = torch.ones(2, 3), torch.ones(3)
    out = f(acc, bias)
    assert type(out.D) is torch.Tensor and out.D.tolist() == [[4.0] * 3] * 2
    assert out.same.tolist() == acc.tolist() == [[1.0] * 3] * 2
    out.same.zero_()
    assert acc.tolist() == [[1.0] * 3] * 2


def test_torch_gradients(torch, arrays):
    a, b, bias, label = map(torch.from_numpy, arrays)
    a.requires_grad_()
    with pytest.raises(post.UnsupportedError, match="gradients come in a later version"):
        post.matmul(a, b)
    with torch.no_grad():
        post.matmul(a, b)
    post.matmul(a.detach(), b)


def test_torch_cuda(torch, arrays):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device; ./dev gpu runs this on a GPU machine")
    d, top = expected(*arrays)
    on_host = [torch.from_numpy(x) for x in arrays]
    a, b, bias, label = (x.cuda() for x in on_host)
    half = [a.bfloat16(), b.bfloat16(), bias.bfloat16()]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        out = post.matmul(half[0], half[1], epilogue=f, bias=half[2], label=label)
    torch.cuda.current_stream().wait_stream(side)
    assert out.D.device == a.device and out.D.dtype == torch.bfloat16
    np.testing.assert_array_equal(out.D.float().cpu(), d)
    np.testing.assert_array_equal(out.top.cpu(), top)
    scaled = post.epilogue(lambda acc, s: acc * s)
    np.testing.assert_array_equal(post.matmul(half[0], half[1], epilogue=scaled, s=0.5).float().cpu(), 0.5 * (arrays[0] @ arrays[1]))
    with pytest.raises(post.OperandError, match="PL0308"):
        post.matmul(half[0], half[1], epilogue=f, bias=on_host[2].bfloat16(), label=label)

def test_torch_graphs(torch):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device; ./dev gpu runs this on a GPU machine")

    @post.epilogue
    def rows(acc):
        return {"D": post.cast(acc - post.mean(acc, axis=1), post.bf16), "total": post.sum(acc, axis=0)}

    x = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16)
    weights = [torch.randn(256, 256, device="cuda", dtype=torch.bfloat16) / 16 for _ in range(6)]

    def network():
        y, totals = x, []
        for weight in weights:
            out = post.matmul(y, weight, epilogue=rows)
            y, totals = out.D, totals + [out.total]
        return [y] + totals

    expected = network()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # other addresses than before: each call is bound while it is captured
        captured = network()
    for replay in range(3):
        for result in captured:
            result.zero_()
        for size in range(40):  # what others bind and leave meanwhile is not what the graph uses
            post.matmul(x[: 200 + size], weights[size % 6], epilogue=rows)
        graph.replay()
        torch.cuda.synchronize()
        for got, wanted in zip(captured, expected):
            assert torch.equal(got, wanted), replay

