"""The stubs: complete, and a user's file checks against them."""
import pathlib
import subprocess
import sys

import pytest

import postlude as post

GOOD = '''
import numpy as np
import postlude as post


@post.epilogue
def f(acc: post.Value, bias: post.row[post.bf16], label: post.col[post.i64], alpha: post.scalar[post.f32]) -> dict[str, post.Value]:
    hit = post.n_index() == label
    x = post.gelu(alpha * acc + bias) + post.leaky_relu(acc, 0.2) - abs(acc) ** 2
    gate, up = post.chunk(x, 2)
    total, square = post.reduce((gate, up), combine=lambda a, b, c, d: (a + c, b + d), identity=(0, 0), axis=1)
    return {"D": post.where(hit, x, 0.0), "amax": post.max(abs(x), axis=1), "s": total + square,
            "t": post.sum(post.cast(x, post.bf16, round=post.stochastic(3)), axis=0), "u": post.max(x, 0), "v": post.clamp(x, 0, 1)}


a = np.ones((2, 2), np.float32)
out = post.matmul(a, a, epilogue=f, bias=a[0], label=a[0], alpha=1.0)
plan: post.Plan = post.plan(post.f32, post.f32, epilogue=f, target=post.Target.cpu(threads=2))
text: str = plan.explain("summary", m=3)
call: post.Call = plan.bind(a, a, bias=a[0])
row: np.ndarray = post.exp(a)
try:
    pass
except post.Error as error:
    code: str = error.code
'''
BAD = '''
import postlude as post


@post.epilogue
def f(acc: post.Value) -> post.Value:
    return post.gelu()


post.plan(post.f32, post.f32, target=post.Target.cpu(threads="two"))
'''


def check(tmp_path, text):
    pytest.importorskip("mypy")
    path = tmp_path / "user.py"
    path.write_text(text)
    return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"),
                           "--config-file=", str(path)], capture_output=True, text=True)


def test_a_users_file_checks(tmp_path):
    done = check(tmp_path, GOOD)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_uses_are_found(tmp_path):
    done = check(tmp_path, BAD)
    assert 'overload variants of "gelu"' in done.stdout and '"cpu" of "Target"' in done.stdout, done.stdout


def test_every_operation_has_a_stub():
    folder = pathlib.Path(post.__file__).parent
    stub = (folder / "ops.pyi").read_text()
    from postlude._operations import public
    for name in public:
        assert f"\ndef {name}(" in stub, name
    assert (folder / "_core.pyi").read_text().count("class ") > 8
    assert (folder / "py.typed").exists()
