"""bench/shapes: what random cells are made of; ./dev gpu shapes and ./dev bench shapes run them."""
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest

import postlude as post

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "bench/shapes"
if not FOLDER.is_dir():
    pytest.skip("bench is not here", allow_module_level=True)
sys.path.insert(0, str(FOLDER))

import cells  # noqa: E402
import convs  # noqa: E402
import epilogues  # noqa: E402
import gpu  # noqa: E402
import loops  # noqa: E402
import report  # noqa: E402


@pytest.mark.parametrize("family", epilogues.FAMILIES)
def test_composed_epilogues_compile(family):
    rng = random.Random(family)
    for _ in range(25):
        n = rng.choice((256, 1000))
        e = epilogues.draw_epilogue(rng, n, {family: 1})
        text = e.language("bf16")
        plan = post.plan(post.bf16, post.bf16, epilogue=post.parse(text))
        names = {name for name, _, _, is_output in plan.slots if is_output}
        assert names == {o.name for o in e.outputs}, text


def test_a_cell_follows_from_its_seed_and_number():
    first, again, other = (cells.draw_cell(seed, 3) for seed in (1, 1, 2))
    assert first == again != other
    drawn = [cells.draw_cell(5, number) for number in range(300)]
    assert {c.epilogue.family for c in drawn} == set(epilogues.FAMILIES)
    assert min(c.m for c in drawn) < 8 and max(c.m for c in drawn) > 10000
    assert all(c.n % c.epilogue.needs_even == 0 for c in drawn)
    assert len({cells.draw_neighbour(5, number).epilogue.name for number in range(12)}) == 1


def test_a_convolution_follows_from_its_seed_and_number():
    assert convs.draw_conv(1, 3) == convs.draw_conv(1, 3) != convs.draw_conv(2, 3)
    drawn = [convs.draw_conv(5, number) for number in range(300)]
    assert {c.direction for c in drawn} == {"fprop", "dgrad", "wgrad"}
    assert all(min(c.output) > 0 and c.bytes() <= convs.MOST_BYTES for c in drawn)
    names = {name for c in drawn for name in convs.classes_of(c)}
    assert {"fprop, depthwise, strided", "wgrad, 1 x 1", "dgrad, windows", "one image"} <= names
    two = convs.Conv(0, "wgrad", 2, (5, 7), 16, 8, (3, 3), 2, (1, 0))
    assert two.output == (3, 3) and two.shape() == "2x5x7x16:8x3x3:s2,p1x0"
    assert two.k == 18 and two.operations == 2 * 18 * 8 * 9 * 16
    assert two.bytes() == 2 * (2 * (16 * 35 + 8 * 9) + 8 * 16 * 9)


def test_bytes_are_those_that_must_move():
    e = epilogues.Epilogue("elementwise")
    e.output("D", f"acc + {e.operand('bias', 'row', 'f32')}")
    assert cells.Cell(0, e, m=2, n=8, k=4).bytes() == 2 * (2 * 4 + 4 * 8 + 2 * 8) + 4 * 8


@pytest.mark.skipif(shutil.which("c++") is None, reason="no compiler")
def test_every_epilogue_has_a_loop(tmp_path):
    drawn = [cells.draw_cpu_cell(9, number) for number in range(120)]
    source = tmp_path / "loops.cpp"
    source.write_text(loops.PRELUDE + "".join(
        loops.loop(c.epilogue, f"cell_{c.number}") for c in drawn))
    subprocess.run(["c++", "-std=c++17", "-fsyntax-only", "-w", source], check=True)


def test_several_schedules_are_wanted():
    e = epilogues.draw_epilogue(random.Random(1), 256, {"elementwise": 1})
    cell = cells.Cell(0, e, m=300, n=512, k=1024)
    plan = post.plan(post.bf16, post.bf16, epilogue=post.parse(e.language("bf16")), target="sm_90a")
    wanted = gpu.wanted_schedules(cell, plan, 12)
    form = re.compile(r"(pingpong|cooperative) \d+x\d+x\d+ sub \d+x\d aux \d raster \d+"
                      r"( split \d+( by memory( in shares)?( at end)?)?)?")
    assert len(wanted) == len(set(wanted)) == 12 and all(form.fullmatch(w) for w in wanted), wanted


@pytest.fixture
def machine(torch):
    made = object.__new__(gpu.Machine)
    made.torch, made.post, made.device, made.cuda = torch, post, "cpu", False
    return made


def test_a_wrong_value_is_seen(machine):
    for number in range(12):
        cell = cells.draw_small_cell(3, number)
        a, b, operands = machine.operands(cell)
        outputs = gpu.results_of(machine.ours(cell, a, b, operands)[1])
        exact = machine.exact(cell, a, b, operands)
        assert machine.error(cell, outputs, exact) <= 1, cell.epilogue.language(cell.dtype)
        if cell.epilogue.outputs[0].index_of:
            continue
        wrong = outputs[0].float().clone()
        wrong.flatten()[-1] += 0.02 + 0.02 * wrong.flatten()[-1].abs()
        assert machine.error(cell, (wrong, *outputs[1:]), exact) > 1


def test_sums_over_a_long_k_may_be_cut(machine):
    e = epilogues.Epilogue("columns")
    e.output("v", "var(acc, axis=0)", "row", "f32")
    cell = cells.Cell(7, e, m=2, n=2048, k=18432)
    given = machine.operands(cell)
    exact = machine.exact(cell, *given)
    error = lambda lost: machine.checked(  # noqa: E731
        cell, *given, [x.float() for x in machine.exact(cell, *given, lost)], exact)
    most = cell.k / 16 * 2.0 ** -23
    assert error(0) < error(most) <= 1 < error(20 * most)
    short = cells.Cell(7, e, m=2, n=2048, k=1024)
    given = machine.operands(short)
    cut = [x.float() for x in machine.exact(short, *given, 20 * most)]
    assert machine.checked(short, *given, cut, machine.exact(short, *given)) > 1


def test_sums_that_cancel_may_be_cut_too(machine):
    e = epilogues.Epilogue("plain")
    e.output("D", "acc", "tile", "f32")
    cell = cells.Cell(7, e, m=2, n=8, k=18432)
    a, b, operands = machine.operands(cell)
    half = cell.k // 2
    a[:, half:], b[half:] = a[:, :half], -b[:half]
    exact = machine.exact(cell, a, b, operands)
    assert not exact[0].any()
    sums = a.double().norm(dim=1, keepdim=True) * b.double().norm(dim=0) / cell.k ** 0.5
    lost = cell.k / 16 * 2.0 ** -23 * sums
    error = lambda part: machine.checked(  # noqa: E731
        cell, a, b, operands, [(part * lost).float()], exact)
    assert error(0) <= error(0.9) <= 1 < error(2)


def test_a_seed_is_used_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "SEEDS", tmp_path / "seeds.json")
    assert cells.used(7) is None
    cells.record(7, {"for": "test"}, cells.SEEDS)
    cells.record(8, {"for": "test"}, cells.SEEDS)
    assert cells.used(7)["for"] == "test" and cells.used(9) is None


def row(**more):
    return {"number": 0, "epilogue": "gelu", "family": "elementwise", "m": 64, "n": 128, "k": 64,
            "batch": 1, "dtype": "bf16", "b_contiguous": "k", "padding": 0, "operations": 1e6,
            "ours_ms": 2.0, "cublas_plain_ms": 1.0, "best_peer": "torch.compile",
            "best_peer_ms": 3.0, "floor_ms": 0.5, "first_call_s": 0.1, "error_over_bound": 0.4,
            "schedule": "pingpong", **more}


def test_the_report_says_what_is_slow_and_what_is_wrong(tmp_path, capsys):
    what = {"device": "a GPU", "seed": 1}
    assert report.write(what, [row(), row(number=1, m=4000, best_peer_ms=1.0)], tmp_path, "x") == 0
    text = capsys.readouterr().out
    assert "50 %" in text and "0.50" in text and "4000 x 128 x 64" in text
    assert json.loads((tmp_path / "x.json").read_text())["rows"][0]["ours_ms"] == 2.0
    assert (tmp_path / "x.svg").read_text().count("<circle") == 3 + 6
    for wrong in (row(error_over_bound=1.5), row(error_over_bound=float("nan")), row(failed="oh")):
        assert report.write(what, [row(), wrong], tmp_path, "x") == 1


def test_quantiles():
    assert report.quantile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.5
    assert report.quantile([1.0], 0.9) == 1.0
