"""Small programs, their torch names and what is missing."""

import subprocess
import sys

import pytest

from dynograd.port import main, missing, names_used


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ("import torch\nx = torch.zeros(2)\n", {"torch.zeros": [2]}),
        ("import torch as th\nth.a.b(th.c)\nth.c\n", {"torch.a.b": [2], "torch.c": [2, 3]}),
        ("import torch.nn.functional as F\nF.relu(x)\n", {"torch.nn.functional": [1], "torch.nn.functional.relu": [2]}),
        ("import torch.optim\ntorch.optim.SGD\n", {"torch.optim": [1], "torch.optim.SGD": [2]}),
        ("from torch import nn, Tensor as T\nnn.Linear(2, 3)\nT.add\n",
         {"torch.Tensor": [1], "torch.Tensor.add": [3], "torch.nn": [1], "torch.nn.Linear": [2]}),
        ("from torch.utils.data import DataLoader\n", {"torch.utils.data.DataLoader": [1]}),
        ("from torch.nn import *\n", {"torch.nn.*": [1]}),
        ("import dynograd as torch\ntorch.ones(1).sum()\n", {"torch.ones": [2]}),
        ("def f():\n    import torch\n    return torch.tensor([torch.pi])\n", {"torch.pi": [3], "torch.tensor": [3]}),
        ("from .torch import x\nimport torchvision\nimport numpy\nnumpy.torch.y\n", {}),
        ("import torch\ntorch.zeros(2)[torch.arange(2)].to(torch.float32)\n",
         {"torch.arange": [2], "torch.float32": [2], "torch.zeros": [2]}),
    ],
)  # fmt: skip
def test_names_used(program, names):
    assert names_used(program) == names


@pytest.mark.parametrize(
    ("name", "is_missing"),
    [
        ("torch.nn.functional.relu", False),
        ("torch.utils.data.DataLoader", False),
        ("torch.Tensor.add_", False),
        ("torch.backends.cudnn.benchmark", False),
        ("torch.distributions.Normal", False),
        ("torch.nn.*", False),
        ("torch.no_such_name", True),
        ("torch.nn.no_such_module.Thing", True),
        ("torch.Tensor.no_such_method", True),
    ],
)
def test_missing(name, is_missing):
    assert missing(name) == is_missing


def test_command_lists_names_and_lines(tmp_path, capsys):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("import torch\ntorch.zeros(2)\n")
    bad.write_text("import torch\ntorch.zeros(2)\ntorch.no_such(torch.zeros(3))\n")
    assert main([str(good)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{good}:2: there   torch.zeros", "1 torch names, 0 missing."]
    assert main([str(tmp_path), "--missing"]) == 1
    assert capsys.readouterr().out.splitlines() == [f"{bad}:3: missing torch.no_such", "2 torch names, 1 missing."]
    assert main([str(bad)]) == 1
    assert f"{bad}:2: there   torch.zeros (also on 3)" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"def (:\n", b"\xff\xfe", None])
def test_files_that_cannot_be_read(tmp_path, capsys, content):
    path = tmp_path / "broken.py"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path)]) == 2
    assert f"{path}: cannot be read: " in capsys.readouterr().err


def test_as_a_command(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import torch\ntorch.no_such\n")
    done = subprocess.run([sys.executable, "-m", "dynograd.port", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[-1] == "1 torch names, 1 missing."
