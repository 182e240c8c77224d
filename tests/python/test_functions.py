"""An operation of one's own, in one decorator."""
import subprocess
import sys
import time

import numpy as np
import pytest

import postlude as post


@post.function
def squared_relu(x):
    """max(x, 0) ** 2."""
    return post.max(x, 0) ** 2


@post.function(cuda="x0 / (1.0f + __expf(-p0 * x0))", derivative="sigmoid(beta * x) * (1 + beta * x * (1 - sigmoid(beta * x)))",
               ulps=16)
def swish_of(x, beta=1.0):
    """x * sigmoid(beta * x)."""
    return x / (1 + np.exp(-beta * x))


@post.function(guard="p == 0", ulps=8)
def tilted(x, y, *, p):
    return p * (x + np.sin(y))


def test_from_primitives():
    f = post.epilogue(lambda acc: squared_relu(acc))
    x = np.float32([[-2, 3]])
    np.testing.assert_array_equal(post.stream(x, epilogue=f), [[0, 9]])
    np.testing.assert_array_equal(squared_relu.numpy(x), [[0, 9]])
    assert squared_relu.__doc__ == "max(x, 0) ** 2."


def test_derivatives_are_kept():
    kept = {name: derivatives for name, _, _, _, derivatives in post._core.functions()}
    assert list(swish_of.derivatives) == kept["swish_of"] == ["sigmoid(beta * x) * (1 + beta * x * (1 - sigmoid(beta * x)))"]
    assert tilted.derivatives == () and kept["tilted"] == []


def test_native(rng):
    @post.epilogue
    def f(acc):
        return swish_of(acc, 1.5) + swish_of(acc)

    x = rng.standard_normal((37, 90)).astype(np.float32)
    expected = x / (1 + np.exp(-1.5 * x)) + x / (1 + np.exp(-x))
    np.testing.assert_allclose(post.stream(x, epilogue=f), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-6)
    assert "swish_of(acc, 1.5)" in str(f)
    assert post.plan(post.f32, epilogue=f).verify(x)[0].error_over_bound <= 1


def test_two_arguments_and_a_keyword_parameter(rng):
    @post.epilogue
    def f(acc, r: post.tile):
        return tilted(acc, r, p=0.5)

    x, r = (rng.standard_normal((5, 6)).astype(np.float32) for _ in range(2))
    np.testing.assert_allclose(post.stream(x, epilogue=f, r=r), 0.5 * (x + np.sin(r)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("raised", [ValueError("not today"), KeyboardInterrupt()])
@pytest.mark.parametrize("shape", [(2, 3), (301, 700)])
def test_what_a_reference_raises_reaches_the_caller(raised, shape):
    @post.function(cuda="x0")
    def broken_reference(x):
        raise raised

    x = np.ones(shape, np.float32)
    f = post.epilogue(lambda acc: broken_reference(acc))
    for call in (lambda: post.stream(x, epilogue=f), lambda: post.plan(post.f32, epilogue=f).verify(x), lambda: f(x)):
        with pytest.raises(type(raised)) as caught:
            call()
        assert caught.value is raised


def test_what_one_thread_raises_stops_the_others():
    calls = []

    @post.function(cuda="x0")
    def interrupted(x):
        calls.append(len(calls))
        if calls[-1] == 3:
            raise KeyboardInterrupt
        time.sleep(0.01)
        return x

    with pytest.raises(KeyboardInterrupt):  # of thousands of calls
        post.stream(np.ones((900, 900), np.float32), epilogue=post.epilogue(lambda acc: interrupted(acc)))
    assert len(calls) < 200


def test_a_result_of_another_shape_is_refused():
    @post.function(cuda="x0")
    def halved(x):
        return x[::2]

    with pytest.raises(post.GraphError, match=r"'halved' makes an array of \(\d+,\) of one of \(\d+,\)"):
        post.stream(np.ones((4, 6), np.float32), epilogue=post.epilogue(lambda acc: halved(acc)))


def test_a_cell_may_be_edited_and_run_again():
    def cell(factor):
        @post.function(cuda=f"x0 * {factor}")
        def edited(x):
            return x * factor
        return edited

    edited = cell(2)
    f = post.epilogue(lambda acc: edited(acc))
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(post.stream(x, epilogue=f), 2 * x)
    plan = post.plan(post.f32, epilogue=f)
    for factor in range(3, 90):
        edited = cell(factor)
        np.testing.assert_array_equal(post.stream(x, epilogue=f), factor * x)
    np.testing.assert_array_equal(plan.bind(x)(), 2 * x)


def test_functions_in_one_process_are_not_counted():
    functions = []
    for i in range(100):
        def numbered(x, i=i):
            return x + i
        numbered.__name__ = f"numbered_{i}"
        functions.append(post.function(cuda="x0")(numbered))
    x = np.zeros((2, 3), np.float32)
    f = post.epilogue(lambda acc: functions[0](acc) + functions[99](acc))
    np.testing.assert_array_equal(post.stream(x, epilogue=f), x + 99)


@pytest.mark.parametrize("native", [False, True])
def test_a_thread_that_computes_when_the_interpreter_ends(native):
    program = f"""
import threading, time
import numpy as np
import postlude as post

@post.function(cuda="x0")
def own(x):
    return x + 1

a = np.ones((300, 300), np.float32)
f = post.epilogue(lambda acc: own(acc) if {native} else post.gelu(acc))
started = threading.Event()

def work():
    while True:
        post.matmul(a, a, epilogue=f)
        started.set()

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.05)
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and not done.stderr, (done.returncode, done.stderr)


def test_malformed():
    with pytest.raises(post.Error) as caught:
        @post.function(cuda="x0")
        def gelu(x):
            return x
    assert "gelu" in str(caught.value)
    with pytest.raises(post.GraphError, match="PL0212"):
        @post.function(cuda="x0")
        def starred(*x):
            return x
    with pytest.raises(post.TextError, match="PL0105"):
        post.epilogue(lambda acc: swish_of()).graph


def test_a_native_function_may_write_to_its_arguments():
    @post.function(cuda="2.0f * x0")
    def doubled_in_place(x):
        x *= 2
        return x

    f = post.epilogue(lambda acc: doubled_in_place(acc) - acc)
    x = np.float32([[1, 2]])
    np.testing.assert_array_equal(f(x), [[1, 2]])
    np.testing.assert_array_equal(post.stream(x, epilogue=f), [[1, 2]])
    np.testing.assert_array_equal(x, [[1, 2]])
