"""The notebooks of examples/ run from top to bottom, are stored without outputs, and hold to what they say."""

import ast
import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
LEAST = {"text": "accuracy > 0.65", "trees": "losses[-1] < losses[0]", "graphs": "right[test].float().mean() > 0.7"}


def cells(path, kind="code"):
    return [
        "".join(cell["source"])
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == kind
    ]


def test_there_are_three():
    assert {path.stem for path in NOTEBOOKS} == set(LEAST)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_run_in_order(path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the extra viz is not installed")
    monkeypatch.chdir(EXAMPLES)  # where Jupyter runs them
    monkeypatch.setattr(pyplot, "show", lambda: pyplot.close("all"))
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path), start=1):
        exec(compile(cell, f"{path.name}, cell {number}", "exec"), names)
    assert eval(LEAST[path.stem], names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_stored_without_outputs_and_read_by_people(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"])
    assert cells(path, "markdown")[0].startswith("# ")
    for cell in cells(path):
        ast.parse(cell)  # no magics: the cells are Python
    for text in cells(path, "markdown"):
        for name in [word.strip("`(),.") for word in text.split() if word.startswith(("`docs/", "`examples/"))]:
            assert (EXAMPLES.parent / name).exists(), name


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_jupyter_kernel_runs_them(path):
    nbclient = pytest.importorskip("nbclient", reason="the extra notebooks is not installed")
    nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")
    pytest.importorskip("ipykernel", reason="the extra notebooks is not installed")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    ).execute()
    assert any(output["output_type"] == "display_data" for cell in notebook.cells for output in cell.get("outputs", []))
