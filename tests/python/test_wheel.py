"""A wheel, built here and installed in a clean environment: it needs no compiler, no CUDA and no library of ours."""
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest
from conftest import ROOT

# What every Linux has (libgcc_s for the ends of threads); the wheel carries the rest.
EXPECTED = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2", "libgomp.so.1", "libgcc_s.so.1"}

SCRIPT = """
import sys
import numpy as np
import postlude as post

assert "site-packages" in post.__file__, post.__file__
assert not any(name in sys.modules for name in ("torch", "ml_dtypes", "nanobind"))

@post.epilogue
def f(acc, bias: post.row):
    d = post.gelu(acc + bias)
    return {"D": d, "amax": post.max(abs(d), axis=1)}

x = np.eye(4, dtype=np.float32)
out = post.matmul(x, x, epilogue=f, bias=np.zeros(4, np.float32))
assert out.D.shape == (4, 4) and out.amax.shape == (4,)
assert f(x, np.zeros(4, np.float32)).D.shape == (4, 4)
answer = post.supports(post.bf16, post.bf16, target="cuda")
assert answer or answer.reasons
print("ran", post.__version__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = ROOT / "build" / "python"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps",
               f"--config-settings=build-dir={build}", "-w", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return next(folder.glob("postlude-*.whl"))


def test_what_a_wheel_holds(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("postlude/__init__.py", "postlude/py.typed", "postlude/ops.pyi", "postlude/_core.pyi", "postlude/libgomp.so.1",
                   "postlude/epilogues/prelude.py", "postlude/epilogues/bias_gelu.py"):
        assert wanted in names, wanted
    assert any(re.fullmatch(r"postlude/_core\..*\.so", name) for name in names)
    assert not [name for name in names if name.endswith((".a", ".h", ".cpp", ".cmake"))]
    assert wheel.stat().st_size < 30 << 20


@pytest.mark.skipif(not shutil.which("readelf"), reason="readelf is not here")
def test_which_libraries_it_needs(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    module = next((tmp_path / "postlude").glob("_core.*.so"))
    text = subprocess.run(["readelf", "-d", str(module)], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)) <= EXPECTED, text
    assert re.search(r"\((RUNPATH|RPATH)\).*\[\$ORIGIN\]", text), text


def test_it_runs_in_a_clean_environment(wheel, tmp_path):
    environment = tmp_path / "env"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    done = subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel)],
                          capture_output=True, text=True)
    if done.returncode != 0 and "numpy" in done.stderr:
        pytest.skip("numpy could not be installed: no package index")
    assert done.returncode == 0, done.stderr
    clean = {"PATH": "/nonexistent", "HOME": str(tmp_path)}
    done = subprocess.run([str(python), "-c", SCRIPT], capture_output=True, text=True, cwd=tmp_path, env=clean)
    assert done.returncode == 0 and done.stdout.startswith("ran"), done.stderr
