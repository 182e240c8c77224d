"""One file under `postlude run` and imported into Python: the same bits."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
from conftest import ROOT
from test_suite import FILES, drawn, imported

import postlude as post

COMMAND = pathlib.Path(os.environ.get("POSTLUDE_COMMAND", ROOT / "build" / "postlude"))

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason="build/postlude is not there; ./dev build makes it")

USERS = """
import postlude as post

def swish(x, slope):
    return x * post.sigmoid(slope * x)

@post.epilogue
def gated(acc, bias: post.row, slope: post.scalar, mask: "tensor"):
    z = acc + bias
    D = post.where(mask > 0, swish(z, slope), 0.0)
    top = post.argmax(D, axis=1)
    total = post.sum(D, axis=0)
    return D, top, total
"""


@pytest.mark.parametrize("path", [*FILES, "a user's"], ids=lambda path: getattr(path, "stem", path))
def test_the_same_bits(path, tmp_path, rng):
    if path == "a user's":
        path = tmp_path / "gated.py"
        path.write_text(USERS)
    m, n, k = 37, 128, 29  # rope splits N by heads of 128
    for function, epilogue in imported(path).items():
        arrays = {"A": rng.standard_normal((m, k)).astype(np.float32), "B": rng.standard_normal((k, n)).astype(np.float32)}
        arrays |= drawn(post.plan(post.f32, post.f32, epilogue=epilogue), m, n, k, rng)
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        subprocess.run([COMMAND, "run", f"{path}:{function}", "--gemm", f"{m}x{n}x{k}", "--in", "f32", "--out", tmp_path / "out",
                        *(f"{name}={tmp_path / name}.npy" for name in arrays)], check=True, capture_output=True)
        a, b = arrays.pop("A"), arrays.pop("B")
        result = post.matmul(a, b, epilogue=epilogue, **arrays)
        names = [name for name, *_ in epilogue.graph.outputs]
        for name, ours in zip(names, result if isinstance(result, tuple) else [result], strict=True):
            written = np.load(tmp_path / "out" / f"{name}.npy")
            assert written.shape == ours.shape
            np.testing.assert_array_equal(written, ours.astype(written.dtype))
