"""Setting up environments, without network: which Python is chosen, and when an environment is kept, made anew or put aside."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
REAL_PYTHON = os.path.realpath(sys.executable)


# ---------------------------------------------------------------- tools/setup.sh


@pytest.fixture
def choose(tmp_path):
    """Runs setup.sh in a folder whose bootstrap.py only says who runs it, with these commands on PATH: {name: script}."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "tools" / "setup.sh").write_bytes((ROOT / "tools" / "setup.sh").read_bytes())
    (tmp_path / "tools" / "bootstrap.py").write_text("import os, sys; print(os.environ['AS'], *sys.argv[1:])")

    def run(commands, **variables):
        for name, script in commands.items():
            path = tmp_path / "bin" / name
            path.write_text(f"#!/bin/sh\nexport AS={name}\n{script}\n")
            path.chmod(0o755)
        return subprocess.run(
            ["/bin/sh", "tools/setup.sh", ".venv", "--extras", "dev"],
            cwd=tmp_path,
            env={"PATH": str(tmp_path / "bin")} | variables,
            capture_output=True,
            text=True,
        )

    return run


GOOD = f'exec {REAL_PYTHON} "$@"'
SHIM = 'echo "python: command not found" >&2; exit 127'
OLD = f"""case "$2" in *version_info*) exit 1;; *) exec {REAL_PYTHON} "$@";; esac"""
NO_ENSUREPIP = f"""case "$2" in *ensurepip*) exit 1;; *) exec {REAL_PYTHON} "$@";; esac"""


@pytest.mark.parametrize(
    ("commands", "chosen"),
    [
        ({"python3.13": GOOD, "python3.11": GOOD, "python3": GOOD}, "python3.13"),
        ({"python3.14": SHIM, "python3.12": SHIM, "python3.11": GOOD}, "python3.11"),
        ({"python3.11": SHIM, "python3": GOOD}, "python3"),
        ({"python3": OLD, "python": GOOD}, "python"),
        ({"python3.12": NO_ENSUREPIP, "python3": GOOD}, "python3"),
    ],
)
def test_first_python_that_really_runs_is_chosen(choose, commands, chosen):
    done = choose(commands)
    assert (done.stdout, done.stderr) == (f"{chosen} .venv --extras dev\n", "")


def test_python_variable_decides(choose):
    assert choose({"python3.13": GOOD, "mine": GOOD}, PYTHON="mine").stdout.startswith("mine ")


@pytest.mark.parametrize(
    ("commands", "variables", "words"),
    [
        ({}, {}, ["no Python 3.11 or newer found", "python3.14", "make PYTHON="]),
        ({"python3": OLD}, {}, ["no Python 3.11 or newer found"]),
        ({"python3.11": NO_ENSUREPIP}, {}, ["python3.11", "ensurepip", "apt install python3-venv"]),
        ({"python3": GOOD}, {"PYTHON": "absent"}, ["PYTHON=absent is not a command"]),
        ({"python3": GOOD, "mine": SHIM}, {"PYTHON": "mine"}, ["PYTHON=mine does not run"]),
        ({"python3": GOOD, "mine": OLD}, {"PYTHON": "mine"}, ["PYTHON=mine is Python 3", "needs 3.11 or newer"]),
    ],
)
def test_without_a_usable_python_the_message_says_what_to_do(choose, commands, variables, words):
    done = choose(commands, **variables)
    assert (done.returncode, done.stdout) == (1, "")
    for word in words:
        assert word in done.stderr


# ---------------------------------------------------------------- tools/bootstrap.py


class Workshop:
    """bootstrap.py at work in `place`, with an install that only takes notes."""

    def __init__(self, place, monkeypatch):
        spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "tools" / "bootstrap.py")
        self.bootstrap = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "bootstrap", self.bootstrap)
        spec.loader.exec_module(self.bootstrap)
        self.installed, self.missing = [], set()
        self.use(place, monkeypatch)

    def use(self, place, monkeypatch):
        self.place = place
        monkeypatch.setattr(self.bootstrap, "ROOT", place)
        monkeypatch.setattr(self.bootstrap, "install", self.install)
        monkeypatch.setattr(self.bootstrap.subprocess, "run", self.make_venv)

    def make_venv(self, command, **options):
        folder = Path(command[-1])
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(REAL_PYTHON)
        return subprocess.CompletedProcess(command, 0, "")

    def install(self, folder, extras):
        self.installed.append(list(extras))
        return not self.missing.intersection(extras)

    def run(self, *arguments):
        """Exit status, and what was installed on the way."""
        self.installed = []
        return self.bootstrap.main([".venv", *arguments]), self.installed


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    place = tmp_path / "clone"
    place.mkdir()
    (place / "pyproject.toml").write_text("[project]\n")
    return Workshop(place, monkeypatch)


def test_environment_is_made_once_and_kept(workshop):
    assert workshop.run("--extras", "viz") == (0, [["viz"]])
    assert workshop.run("--extras", "viz") == (0, [])


def test_more_extras_are_added_to_those_there(workshop):
    workshop.run("--extras", "viz")
    (workshop.place / ".venv" / "kept").touch()
    assert workshop.run("--extras", "dev") == (0, [["dev", "viz"]])
    assert workshop.run("--extras", "viz") == (0, [])
    assert (workshop.place / ".venv" / "kept").exists()


def test_changed_project_file_installs_again(workshop):
    workshop.run("--extras", "viz")
    (workshop.place / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    assert workshop.run("--extras", "viz") == (0, [["viz"]])


def test_another_python_makes_it_anew(workshop, monkeypatch):
    workshop.run("--extras", "viz")
    (workshop.place / ".venv" / "old").touch()
    monkeypatch.setattr(workshop.bootstrap, "base_python", lambda: "/usr/bin/another")
    assert workshop.run("--extras", "viz") == (0, [["viz"]])
    assert not (workshop.place / ".venv" / "old").exists()


def test_moved_clone_makes_it_anew(workshop, tmp_path, monkeypatch):
    workshop.run("--extras", "viz")
    (workshop.place / ".venv" / "old").touch()
    workshop.use(workshop.place.rename(tmp_path / "moved"), monkeypatch)
    assert workshop.run("--extras", "viz") == (0, [["viz"]])
    assert not (workshop.place / ".venv" / "old").exists()


def test_interrupted_set_up_is_repaired(workshop, capsys):
    def interrupt(folder, extras):
        raise KeyboardInterrupt

    whole, workshop.bootstrap.install = workshop.bootstrap.install, interrupt
    assert workshop.run("--extras", "viz") == (130, [])
    assert "the next run makes .venv anew" in capsys.readouterr().err
    (workshop.place / ".venv" / "half").touch()
    workshop.bootstrap.install = whole
    assert workshop.run("--extras", "viz") == (0, [["viz"]])
    assert not (workshop.place / ".venv" / "half").exists()


def test_python_gone_makes_it_anew(workshop):
    workshop.run("--extras", "viz")
    (workshop.place / ".venv" / "bin" / "python").unlink()
    assert workshop.run("--extras", "viz") == (0, [["viz"]])


def test_environment_of_somebody_else_is_put_aside(workshop):
    (workshop.place / ".venv").mkdir()
    (workshop.place / ".venv" / "theirs").touch()
    assert workshop.run("--extras", "viz") == (0, [["viz"]])
    assert (workshop.place / ".venv-before-0" / "theirs").exists()


def test_failed_install_says_so_and_is_tried_again(workshop, capsys):
    workshop.missing = {"viz"}
    assert workshop.run("--extras", "viz")[0] == 1
    assert "pip could not install dynograd[viz]" in capsys.readouterr().err
    workshop.missing = set()
    assert workshop.run("--extras", "viz") == (0, [["viz"]])


def test_failed_addition_leaves_what_was_there(workshop):
    workshop.run("--extras", "viz")
    workshop.missing = {"dev"}
    assert workshop.run("--extras", "dev")[0] == 1
    assert workshop.run("--extras", "viz") == (0, [])


def test_optional_extra_that_cannot_be_had_is_left_out_and_told(workshop, capsys):
    workshop.missing = {"peers"}
    arguments = ("--extras", "dev", "--optional", "peers")
    assert workshop.run(*arguments) == (0, [["dev"], ["peers"]])
    assert "going on without the extra 'peers'" in capsys.readouterr().out
    assert workshop.run(*arguments) == (0, [])
    assert workshop.run("--extras", "dev,peers")[0] == 1


def test_optional_extra_that_is_there_counts_as_installed(workshop):
    assert workshop.run("--optional", "peers") == (0, [[], ["peers"]])
    assert workshop.run("--extras", "peers") == (0, [])
