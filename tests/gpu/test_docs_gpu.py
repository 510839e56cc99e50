"""The examples of pages about GPUs run, those that need a GPU included."""

import importlib.util
import re
from pathlib import Path

import pytest

from dynograd.ops.op import registry

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture
def table_of_ops():
    """An op that a page adds is gone afterwards."""
    before = set(registry)
    yield
    for name in set(registry) - before:
        del registry[name]


@pytest.mark.parametrize(
    "page, count, device", [("gpu.md", 4, "device"), ("tutorials/own-kernels-gpu.md", 4, "values.device.type")]
)
def test_examples_run(page, count, device, tmp_path, table_of_ops):
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= count
    path = tmp_path / "examples_of_gpu_page.py"  # Triton reads kernels from a file
    path.write_text("\n".join(blocks))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert eval(device, vars(module)) == "cuda"
