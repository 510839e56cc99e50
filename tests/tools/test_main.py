"""`python -m dynograd`: the table of commands, what is answered to those that do not exist, and what starting one costs."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dynograd import version
from dynograd.tools.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[2]


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "dynograd", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_the_list(words, capsys):
    assert main(words) == 0
    text = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"  {name} " in text and command.about in text


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dynograd {version.dynograd_version} (names of PyTorch 2.13.0)\n"


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("inof", "there is no command 'inof'. Did you mean info?"),
        ("warm-up", "Did you mean warmup?"),
        (
            "xyz",
            "there is no command 'xyz'. Commands: info, warmup, serve, pack, cache, port, convert, make-torch-shim.",
        ),
        ("--versoin", "there is no option '--versoin'. Did you mean --version?"),
        ("", "there is no command ''."),
    ],
)
def test_what_does_not_exist(word, answer, capsys):
    assert main([word]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("dynograd: error: ") and answer in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_answers_mistakes(name, capsys):
    for words, status in ((["--help"], 0), (["--no-such-option"], 2)):
        with pytest.raises(SystemExit) as ended:
            main([name, *words])
        said = capsys.readouterr()
        assert ended.value.code == status
        assert "usage: " in (said.out if status == 0 else said.err)


def test_arguments_are_passed_on(tmp_path, capsys):
    (tmp_path / "program.py").write_text("import torch\ntorch.nn.Lineal\n")
    assert main(["port", str(tmp_path / "program.py"), "--missing"]) == 1
    assert "missing torch.nn.Lineal" in capsys.readouterr().out


def test_as_a_module():
    done = run("inof")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("dynograd: error: there is no command")


def test_the_console_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, name = scripts["dynograd"].partition(":")
    assert getattr(importlib.import_module(module), name) is main


def test_the_list_loads_little():
    program = """if True:
        import sys
        from dynograd.tools.__main__ import main
        main(["--help"])
        print([name for name in ("numba", "llvmlite", "tqdm", "dynograd.nn") if name in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"
