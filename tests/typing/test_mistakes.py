"""Each planted mistake of `mistakes.py` is found by mypy or by pyright, and nothing else there is.

`python -m tests.typing.test_mistakes PYTHON` prints how many are found here and, with the torch that PYTHON has, in the same text with torch.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from tests.typing import checkers

SOURCE = checkers.HERE / "mistakes.py"
# With PyTorch 2.13.0 and its own types, in the same text, by mypy 2.4 or pyright 1.1.414 (27 November 2026).
FOUND_WITH_TORCH = 88


def mistakes(path: Path = SOURCE) -> set[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}


@pytest.mark.slow
def test_each_mistake_is_found(tmp_path):
    result = set(checkers.by_mypy([SOURCE]).get(SOURCE.name, {}))
    if checkers.name_of_pyright() is not None:
        result |= set(checkers.by_pyright([SOURCE], tmp_path, mode="standard").get(SOURCE.name, {}))
    assert result - mistakes() == set(), "no mistakes"
    missed = mistakes() - result
    assert missed == set() and len(result) >= 40 and len(result) > FOUND_WITH_TORCH


def _found(path: Path, python: str | None) -> dict[str, int]:
    planted = mistakes(path)
    with tempfile.TemporaryDirectory() as folder:
        mypy = set(checkers.by_mypy([path], python).get(path.name, {})) & planted
        pyright = set(checkers.by_pyright([path], Path(folder), "standard", python).get(path.name, {})) & planted
    lines = path.read_text(encoding="utf-8").splitlines()
    for number in sorted(planted - mypy - pyright):
        print("  missed:", lines[number - 1].strip())
    return {"planted": len(planted), "mypy": len(mypy), "pyright": len(pyright), "either": len(mypy | pyright)}


def main(python: str) -> None:
    print("dynograd", _found(SOURCE, None))
    with tempfile.TemporaryDirectory() as folder:
        text = SOURCE.read_text(encoding="utf-8").replace("import dynograd as torch", "import torch")
        path = Path(folder) / "mistakes.py"
        path.write_text(text.replace("dynograd", "torch"), encoding="utf-8")
        print("torch", _found(path, python))


if __name__ == "__main__":
    main(sys.argv[1])
