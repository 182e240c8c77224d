"""The examples and the notebook run from the first line to the last."""
import subprocess
import sys

import pytest
from conftest import ROOT

FOLDER = ROOT / "examples" / "python"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_example(path):
    if path.stem in ("digits", "convolution"):
        pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.stdout.strip(), "an example shows what it did"


def test_there_are_all_of_them():
    assert {path.stem for path in FOLDER.glob("*.py")} >= {
        "bias_gelu", "extreme_labels", "digits", "swiglu", "softmax", "sampling", "attention_scores", "own_operation", "convolution"}


def test_notebook(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(FOLDER / "tour.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    pictures = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
                if "image/png" in output.get("data", {})]
    assert len(pictures) >= 3
