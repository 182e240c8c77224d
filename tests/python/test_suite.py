"""The suite's files are Python: imported they make the same graphs as read as text; and they run on plain arrays."""
import importlib.util

import numpy as np
import pytest
from conftest import ROOT

import postlude as post

ml_dtypes = pytest.importorskip("ml_dtypes")

FILES = sorted(path for path in (ROOT / "epilogues").glob("*.py") if path.stem != "prelude")


def imported(path):
    spec = importlib.util.spec_from_file_location("suite_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: value for name, value in vars(module).items() if isinstance(value, post.Epilogue)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imported_and_read(path):
    found = imported(path)
    assert found
    for name, epilogue in found.items():
        assert str(epilogue) == str(post.load(f"{path}:{name}")), "the tracer and the parser disagree"


def drawn(plan, m, n, k, rng):
    """Every operand of a plan but A and B: integers below N where one is an index."""
    arrays = {}
    for name, axes, dtype, output in plan.slots:
        if output or name in "AB":
            continue
        shape = plan.shape_of(name, m, n, k)
        if dtype in (post.i64, post.i32):
            arrays[name] = rng.integers(0, n, shape).astype(np.int64)
        elif axes == 0:
            arrays[name] = np.float32(0.5)
        else:
            arrays[name] = rng.standard_normal(shape).astype(np.float32)
    return arrays


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plan_against_the_functions_own_reference(path, rng):
    """The plan's f32 result against the decorated function on float64 arrays."""
    m, n, k = 48, 128, 32  # rope splits N by heads of 128
    for epilogue in imported(path).values():
        a = rng.standard_normal((m, k)).astype(np.float32)
        b = (rng.standard_normal((k, n)) / k).astype(np.float32)
        plan = post.plan(post.f32, post.f32, epilogue=epilogue)
        arrays = drawn(plan, m, n, k, rng)
        result = post.matmul(a, b, epilogue=epilogue, **arrays)
        wide = {name: value.astype(np.float64) if value.dtype.kind == "f" else value for name, value in arrays.items()}
        reference = epilogue(a.astype(np.float64) @ b.astype(np.float64), **wide)
        pairs = zip(result, reference) if isinstance(result, tuple) else [(result, reference)]
        coarse = "cast" in str(epilogue) or any(dtype == post.bf16 for *_, dtype in epilogue.graph.outputs)
        tolerance = {"rtol": 2e-2, "atol": 1e-2} if coarse else {"rtol": 2e-4, "atol": 1e-4}
        for ours, wanted in pairs:
            assert ours.shape == wanted.shape
            if ours.dtype == np.int64:
                assert np.mean(ours == wanted) > 0.97
            else:
                fp8 = {"rtol": 0.07, "atol": 1e-2}  # 3 bits of fraction
                np.testing.assert_allclose(np.float64(ours), wanted, **(fp8 if "float8" in str(ours.dtype) else tolerance))
