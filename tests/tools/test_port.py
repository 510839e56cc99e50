"""Small programs, their torch names and what is missing."""

import subprocess
import sys

import pytest

from dynograd.compat.verdicts import why_missing
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
    assert capsys.readouterr().out.splitlines() == [
        f"{bad}:3: missing torch.no_such: {why_missing('torch.no_such')}",
        "2 torch names, 1 missing.",
    ]
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


def test_names_that_refuse_when_called(tmp_path, capsys):
    path = tmp_path / "program.py"
    path.write_text("from torch.package import PackageImporter\nfrom torch.distributed.tensor import Shard\n")
    assert main(["--missing", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{path}:1: refuses torch.package.PackageImporter: programs are not packaged")
    assert lines[1:] == ["2 torch names, 0 missing, 1 refuse when called."]


def port(*words, **options):
    done = subprocess.run([sys.executable, "-m", "dynograd", "port", *words], capture_output=True, text=True, **options)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


def test_running_a_program_finds_methods_of_tensors_and_names_from_strings(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import sys, torch\n"
        "print(sys.argv[1:], hasattr(torch, 'no_' + 'such'))\n"
        "print(hasattr(torch.ones(1), 'no_such_method'))\n"
        "torch.ones(1).neither()\n"
    )
    status, out, errors = port("--run", str(path), "--lr", "1")
    assert status == 1
    assert out[:3] == [f"{path}:3: there   torch.ones (also on 4)", "1 torch names, 0 missing.", "['--lr', '1'] False"]
    assert out[4] == f"{path}:2: asked for torch.no_such, in vain: {why_missing('torch.no_such')}"
    assert [line.partition(" in vain")[0] for line in out[5:7]] == [
        f"{path}:3: asked for torch.Tensor.no_such_method,",
        f"{path}:4: asked for torch.Tensor.neither,",
    ]
    assert out[7].startswith("Run with status 1: 3 names were asked for in vain.")
    assert errors[-1].startswith("AttributeError: 'Tensor' object has no attribute 'neither': dynograd is torch here")


def test_a_package_is_read_and_its_modules_imported(tmp_path):
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise_at = 'import'\n")
    (package / "good.py").write_text("from torch.nn import Linear\n")
    (package / "lacking.py").write_text("from torch.nn import Lineal\n")
    (package / "leaving.py").write_text("raise SystemExit(3)\n")
    status, out, errors = port("some_package", cwd=tmp_path)
    assert (status, errors, out[-1]) == (1, [], "2 torch names, 1 missing.")
    status, out, errors = port("--run", "some_package", cwd=tmp_path)
    assert (status, len(errors)) == (1, 2)
    assert errors[0].startswith("some_package.lacking: cannot be imported: ImportError: cannot import name 'Lineal'")
    assert errors[1] == "some_package.leaving: cannot be imported: SystemExit: 3"
    assert out[-2].startswith(f"{package / 'lacking.py'}:1: asked for torch.nn.Lineal, in vain: ")


def test_neither_a_file_nor_a_package():
    status, _, errors = port("no_such_package")
    assert status == 2
    assert errors == ["port: error: there is neither a file nor an installed package 'no_such_package'."]
