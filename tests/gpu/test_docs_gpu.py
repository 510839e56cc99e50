"""The examples of docs/gpu.md run, those that need a GPU included."""

import importlib.util
import re
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "gpu.md"


def test_examples_run(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 3
    path = tmp_path / "examples_of_gpu_page.py"  # Triton reads kernels from a file
    path.write_text("\n".join(blocks))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.device == "cuda"
