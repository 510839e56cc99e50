"""The programs of tests/programs are PyTorch programs: their texts run on torch too."""

import re
from pathlib import Path

import pytest
import torch

from tests.programs.test_programs import PROGRAMS

FOLDER = Path(__file__).parent.parent / "programs"


@pytest.mark.parametrize("name", PROGRAMS)
def test_runs_on_torch(name):
    text = (FOLDER / f"{name}.py").read_text()
    text = re.sub(r"^import dynograd as torch$", "import torch", text, flags=re.M)
    text = re.sub(r"^(import|from) dynograd\b", r"\1 torch", text, flags=re.M)
    assert "dynograd" not in text
    space = {"__name__": "program", "__file__": name}
    exec(compile(text, name, "exec"), space)
    assert space["torch"] is torch
    assert space["main"](2)
