"""The prepared path, and what a plan says about itself."""
import logging
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import postlude as post


@post.epilogue
def norm(acc, gamma: post.row):
    x = post.tanh(acc)
    return x * post.rsqrt(post.mean(x * x, axis=1) + 1e-6) * gamma


@pytest.fixture
def arrays(rng):
    return tuple(rng.standard_normal(s).astype(np.float32) for s in ((24, 16), (16, 32), (32,)))


def test_plan_bind_call(arrays):
    a, b, gamma = arrays
    plan = post.plan(a, b, epilogue=norm)
    call = plan.bind(a, b, gamma=gamma)
    first = call()
    reference = norm(a.astype(np.float64) @ b, gamma.astype(np.float64))
    np.testing.assert_allclose(first, reference, rtol=1e-5, atol=1e-6)
    a *= 0.5  # a call computes on what its arrays hold then, into the arrays that it made
    assert call() is first
    np.testing.assert_allclose(first, norm(a.astype(np.float64) @ b, gamma.astype(np.float64)), rtol=1e-5, atol=1e-6)
    assert call.workspace_bytes >= 0
    assert "norm" in repr(call) and call.describe()


def test_a_plan_serves_every_shape_and_layout(arrays):
    plan = post.plan(post.f32, post.f32, epilogue=norm)
    for m, n, k in ((1, 1, 1), (3, 70, 5), (65, 2, 33)):
        a, b = np.ones((m, k), np.float32), np.ones((n, k), np.float32).T
        out = plan.bind(a, b, gamma=np.ones(n, np.float32))()
        assert out.shape == (m, n)


def test_repr_is_one_useful_line(arrays):
    text = repr(post.plan(post.f32, post.f32, epilogue=norm))
    assert "\n" not in text
    for word in ("norm", "gemm", "A f32", "gamma f32", "D f32", "cpu"):
        assert word in text
    assert repr(norm) == "<postlude epilogue norm(acc, gamma: row)>"


def test_explain_and_source():
    plan = post.plan(post.f32, post.f32, epilogue=norm)
    for part in ("summary", "passes", "program", "schedule", "loops"):
        assert plan.explain(part, m=64, n=64, k=64).strip(), part
    assert isinstance(plan.source(), str)
    assert len(plan.phases()) >= 2
    assert any("sum" in r for phase in plan.phases() for r in phase.reductions)
    assert repr(plan.phases()[0]).startswith("<phase over {m, n}: reads the product; ")


def test_phases_are_those_that_run():
    """qk_norm_rope's halves are cut otherwise behind a GPU's product than elsewhere."""
    example = pathlib.Path(__file__).resolve().parents[2] / "epilogues/qk_norm_rope.py"
    for target in ("sm_90a", "portable"):
        plan = post.plan(post.bf16, post.bf16, epilogue=post.load(example), target=target)
        written = plan.explain("program").split("\nphase ")[1:]
        for phase, text in zip(plan.phases(), written, strict=True):
            words = [line.split() for line in text.splitlines()]
            assert phase.stores == [line[1].split("[")[0] for line in words if line[0] == "store"]
            assert phase.loads == [line[5].split("[")[0] for line in words if line[4:5] == ["load"]]


def test_verify(arrays):
    a, b, gamma = arrays
    comparisons = post.plan(a, b, epilogue=norm).verify(a, b, gamma=gamma)
    assert [c.output for c in comparisons] == ["D"]
    assert comparisons[0].elements == 24 * 32
    assert comparisons[0].error_over_bound <= 1


def test_bind_takes_defaults():
    @post.epilogue
    def scaled(acc, s: post.scalar = 2.0):
        return acc * s

    x = np.ones((2, 3), np.float32)
    plan = post.plan(x, epilogue=scaled)
    np.testing.assert_array_equal(plan.bind(x)(), 2 * x)
    np.testing.assert_array_equal(plan.bind(x, s=3)(), 3 * x)
    assert all(c.error_over_bound <= 1 for c in plan.verify(x))


def test_packed(arrays):
    a, b, gamma = arrays
    plan = post.plan(a, b, epilogue=norm)
    packed = plan.pack(b)
    assert packed.shape == (16, 32)
    np.testing.assert_array_equal(plan.bind(a, packed, gamma=gamma)(), plan.bind(a, b, gamma=gamma)())


def test_stream_plan():
    plan = post.plan(post.f32, epilogue=post.epilogue(lambda acc: post.relu(acc)))
    x = np.float32([[-1, 2]])
    np.testing.assert_array_equal(plan.bind(x)(), [[0, 2]])
    assert "stream" in repr(plan)


def test_dtypes_by_name():
    pytest.importorskip("ml_dtypes")
    plan = post.plan("bf16", "bf16", epilogue=norm, dtypes={"D": post.f32, "gamma": "f16"})
    assert {name: dtype for name, _, dtype, _ in plan.slots} == {"A": post.bf16, "B": post.bf16, "gamma": post.f16, "D": post.f32}


def test_dtypes_as_numpy_spells_them():
    plan = post.plan(np.float32, np.dtype("float16"), epilogue=norm, dtypes={"D": np.float16, "gamma": "float16"})
    assert {name: dtype for name, _, dtype, _ in plan.slots} == {"A": post.f32, "B": post.f16, "gamma": post.f16, "D": post.f16}
    assert repr(post.row[np.float16]) == "row[f16]"


def test_unannotated_operands_by_class_or_example():
    f = post.epilogue(lambda acc, x: acc + x)
    for x in (post.row, np.ones(4, np.float32)):
        assert post.plan(post.f32, post.f32, epilogue=f, x=x).slots[2][1] == 4
    with pytest.raises(post.OperandError, match="x"):
        post.plan(post.f32, post.f32, epilogue=f)


def test_supports():
    assert post.supports(post.f32, post.f32, epilogue=norm)
    answer = post.supports(post.f32, post.s8, epilogue=norm)
    assert not answer and answer.reasons and all(answer.reasons)
    answer = post.supports(post.f32, post.f32, epilogue=norm, target=post.Target.cpu(isa="sse9"))
    assert not answer and "sse9" in repr(answer)
    x = np.zeros((2, 2))
    for arguments, word in (((x, x), "float64"), ((np.float64, np.float32), "float64")):
        answer = post.supports(*arguments, epilogue=norm)
        assert not answer and word in repr(answer)
    assert "tpu" in repr(post.supports(post.f32, post.f32, epilogue=norm, target="tpu"))
    assert "'x'" in repr(post.supports(post.f32, post.f32, epilogue=post.epilogue(lambda acc, x: acc + x)))
    with pytest.raises(post.UsageError):
        post.supports(post.f32, post.f32, epilogue=lambda acc: acc)


def test_prepare():
    plan = post.plan(post.f32, post.f32, epilogue=norm)
    assert plan.prepare((4, 6, 8), [2, 6, 8], threads=2) is None and plan.prepare() is None
    for wrong in ((4, 6), (4, 6, 8, 1), "456", 4, (4, 6, 8.5)):
        with pytest.raises(post.UsageError, match=r"\(m, n, k\)"):
            plan.prepare(wrong)
    with pytest.raises(post.Error, match="negative"):
        plan.prepare((4, 6, 8), (4, -6, 8))
    with pytest.raises(post.UsageError, match="threads"):
        plan.prepare((4, 6, 8), threads=-1)
    post.plan(post.f32, epilogue=post.epilogue(lambda acc: acc + 1)).prepare((4, 6))


def test_doctor():
    report = post.doctor()
    assert {"postlude", "cpu", "cuda", "numpy", "torch"} <= set(report)
    assert "\n" in repr(report) and report["cuda"]


def test_plans_are_cached_and_logged(caplog):
    f = post.epilogue(lambda acc, s: acc * s)
    x = np.ones((2, 2), np.float32)
    with caplog.at_level(logging.DEBUG, "postlude"):
        for scale in (1.0, 2, np.float32(3)):
            post.stream(x, epilogue=f, s=scale)
            post.stream(x[:, :1], epilogue=f, s=scale)
        assert len(caplog.records) == 1
        post.stream(x.astype(np.float16), epilogue=f, s=1.0)
        assert len(caplog.records) == 2
    assert "compiled <postlude plan" in caplog.records[0].message


def test_nothing_is_printed():
    code = ("import numpy as np, postlude as post; x = np.ones((4, 4), np.float32);"
            "post.matmul(x, x, epilogue=post.epilogue(lambda acc: post.gelu(acc))); post.doctor()")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "" and done.stderr == ""


def test_a_call_does_not_run_twice_at_once():
    n = 900
    a = np.ones((n, n), np.float32)
    call = post.plan(post.f32, post.f32, target=post.Target.cpu(threads=1)).bind(a, a)
    caught = []

    def run():
        for _ in range(10):
            try:
                call()
            except post.UsageError as error:
                caught.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caught and "another thread" in str(caught[0])


def test_targets():
    assert repr(post.Target.cpu()) == "<postlude target cpu>"
    x = np.ones((3, 3), np.float32)
    for target in ("cpu", post.Target.cpu(isa="portable"), post.Target.cpu(threads=2)):
        np.testing.assert_array_equal(post.matmul(x, x, target=target), 3 * x)


def test_targets_by_name() -> None:
    assert post.Target.parse("cuda:3").index == 3
    assert post.Target.parse("avx2").isa == post.Target("avx2").isa == "avx2"
    with pytest.raises(post.UsageError, match="'gpu' is no target"):
        post.Target("gpu")
    assert post.plan(post.f32, post.f32, target="portable").explain("schedule").count("portable") >= 1
    for wrong in ("", "cuda:", "cuda:-1", "sm_", "sm_90x", "AVX2"):
        with pytest.raises(post.UsageError, match="is no target"):
            post.Target.parse(wrong)


def test_a_target_accumulates_fast():
    target = post.Target.cuda(isa="sm_90a")
    target.schedule = "accumulator"
    target.accumulate = "fast"
    assert (target.accumulate, target.schedule) == ("fast", "fast accumulator")
    assert post.supports(post.e4m3, post.e4m3, target=target) and not post.supports(post.bf16, post.bf16, target=target)
    target.accumulate = ""
    assert (target.accumulate, target.schedule) == ("", "accumulator")
    with pytest.raises(post.Error):
        target.accumulate = "slow"
