"""A fixed number of random sequences of calls. ./dev fuzz takes new ones."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "fuzz"))
from calls import check  # noqa: E402
from exporters import FAIR, WRONG, Exporter  # noqa: E402

import numpy as np  # noqa: E402

import postlude as post  # noqa: E402


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_sequences(first):
    for seed in range(first, first + 10):
        assert check(seed) == "", f"seed {seed}"


def test_every_form_of_dlpack():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    f = post.epilogue(lambda acc: acc + 1)
    for form in FAIR:
        given = Exporter(x, form)
        np.testing.assert_array_equal(post.stream(given, epilogue=f), x + 1, form)
        assert given.calls <= 2 and len(given.exports) == 1
        assert given.complaint() == ""
    for form in set(WRONG) - {"interrupts", "another the second time"}:
        given = Exporter(x, form)
        with pytest.raises(post.Error):
            post.stream(given, epilogue=f)
        assert given.complaint() == ""


def test_what_an_exporter_says_is_told():
    class Refusing:
        def __dlpack__(self, **_):
            raise BufferError("the tensor lies on the moon")

    with pytest.raises(post.OperandError, match="BufferError: the tensor lies on the moon"):
        post.stream(Refusing(), epilogue=post.epilogue(lambda acc: acc + 1))
    with pytest.raises(KeyboardInterrupt):
        post.stream(Exporter(np.ones((2, 2), np.float32), "interrupts"), epilogue=post.epilogue(lambda acc: acc + 1))


def test_none_is_no_array():
    plan = post.plan(post.f32, post.f32)
    for call in (lambda: post.plan(None), lambda: post.supports(None), lambda: post.matmul(None, None), lambda: plan.pack(None)):
        try:
            answer = call()
        except post.OperandError:
            continue
        assert isinstance(answer, type(post.supports(post.f32))) and not answer
