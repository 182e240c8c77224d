"""The seed's page itself: its blocks of code, taken from its text, run in their order with what they import exchanged.

The page lies beside the repository (../shared/seeds, or shared/seeds within it), where a user's checkout has none: then these tests
are skipped. Its text has no line ends; statements are the longest runs of words that are one.
"""
import ast
import contextlib
import io
import pathlib
import re
import types

import numpy as np
import pytest

from postlude import te
from postlude.errors import MachineError

root = pathlib.Path(__file__).parents[2]
pages = [page for place in (root / ".." / "shared", root / "shared") for page in sorted((place / "seeds").glob("002_*"))]
pytestmark = pytest.mark.skipif(not pages, reason="the seed's page is not beside the repository")


def blocks(text):
    """Blocks of code, and behind each what the page says that it prints."""
    found = []
    for part in re.split(r"\.\. code-block:: ", text)[1:]:
        kind, _, body = part.partition(" ")
        body = re.split(r" \.\. (?:GENERATED|rst-class|_|only|note)", body)[0]
        if kind == "default":
            found.append([body, ""])
        elif kind == "none":
            found[-1][1] = body
    return found


def statements(code):
    words, made, at = code.split(), [], 0
    while at < len(words):
        for end in range(len(words), at, -1):
            text = " ".join(words[at:end])
            try:
                if len(ast.parse(text).body) != 1 or ";" in text:
                    continue
            except SyntaxError:
                continue
            made.append(text)
            at = end
            break
        else:
            pytest.fail(f"no statement begins at {' '.join(words[at:at + 8])!r}")
    return made


class Array(np.ndarray):
    def numpy(self):
        return np.asarray(self)


class Built:
    """A kernel of a GPU, which a CPU runs from the same nest where there is none."""

    def __init__(self, s, args, target):
        self.there, self.here = te.build(s, args, target), te.build(s, args)

    def __call__(self, *arrays):
        try:
            self.there(*arrays)
        except MachineError:
            self.here(*arrays)

    def __getattr__(self, name):
        return getattr(self.there, name)


def exchanged():
    return types.SimpleNamespace(
        lower=te.lower, build=Built, cuda=lambda number: None, tir=types.SimpleNamespace(const=te.const),
        nd=types.SimpleNamespace(array=lambda a, device=None: a.view(Array)),
        testing=types.SimpleNamespace(assert_allclose=np.testing.assert_allclose))


@pytest.fixture(scope="module")
def page():
    """What each block prints, by its number, and the names that it leaves."""
    names, printed = {"tvm": exchanged(), "te": te, "np": np}, []
    for code, _ in blocks(pages[0].read_text()):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for statement in statements(code):
                if not statement.startswith(("import ", "from ")):
                    exec(statement, names)
        printed.append(out.getvalue())
    return names, printed


def loops(text):
    """Each loop's variable, in order; of both forms of print."""
    return re.findall(r"for \(([\w.]+)", text)


def test_our_own_page_prints_what_it_says():
    """docs/loops.md, line by line: each block of code, and what stands behind it."""
    text = (root / "docs" / "loops.md").read_text().split("## The page that this answers")[1].split("\n## ")[0]
    names, printed, compared = {}, "", 0
    for kind, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        if kind == "python":
            assert not printed
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(body, names)
            printed = out.getvalue().strip()
        else:
            assert printed == body.strip()
            printed, compared = "", compared + 1
    assert compared == 7 and not printed
    theirs = [line for code, _ in blocks(pages[0].read_text()) for line in statements(code)]
    ours = {" ".join(ast.unparse(line).split()) for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
            for line in ast.parse(code).body}
    known = [line for line in theirs if " ".join(ast.unparse(ast.parse(line)).replace("tvm.tir.", "").replace(
        "tvm.", "").split()) in ours]
    assert len(known) >= len(theirs) - 10, [line for line in theirs if line not in known]


def test_every_block_is_found():
    found = blocks(pages[0].read_text())
    assert len(found) >= 10 and sum(bool(result) for _, result in found) >= 6
    assert statements("a, b = f(1) print(a) from x import y, z import w") == [
        "a, b = f(1)", "print(a)", "from x import y, z", "import w"]


def test_nests_have_the_pages_loops(page):
    """The loops that the page prints, in its order; blocks and threads, which it takes out of the nest, aside."""
    compared = 0
    for (code, result), ours in zip(blocks(pages[0].read_text()), page[1], strict=True):
        if "primfn" not in result or "thread_axis" in code:
            continue
        # An axis keeps its name where the page's becomes ax0.
        assert loops(ours) == [{"ax0": "i"}.get(name, name) for name in loops(result)], ours
        compared += 1
    assert compared >= 4


def test_printed_parts(page):
    text = "\n".join(page[1])
    for part in ("allocate B.rf[16, n] f32 global", "sum(B.rf[k.inner.v, i], axis=[k.inner.v])", "blockIdx.x {", "threadIdx.x {",
                 "if (k.outer*16 + k.inner < m)", "__shfl_down_sync", "Input[i + di, j + dj]*Filter[di, dj]"):
        assert part in text, part


def test_results(page, rng):
    names, _ = page
    np.testing.assert_allclose(names["b"].numpy(), names["a"].numpy().sum(1), rtol=1e-4)
    x, f = rng.standard_normal((9, 9), dtype=np.float32), rng.standard_normal((3, 3), dtype=np.float32)
    y = np.zeros((7, 7), np.float32)
    te.build(te.create_schedule(names["Output"].op), [names["Input"], names["Filter"], names["Output"]])(x, f, y)
    np.testing.assert_allclose(y, sum(x[i:i + 7, j:j + 7] * f[i, j] for i in range(3) for j in range(3)), rtol=1e-4, atol=1e-5)
    a, b = rng.uniform(0.5, 1.5, (5, 11)).astype(np.float32), np.zeros(5, np.float32)
    te.build(te.create_schedule(names["B"].op), [names["A"], names["B"]])(a, b)
    np.testing.assert_allclose(b, a.prod(1), rtol=1e-4)
