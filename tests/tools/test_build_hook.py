"""The hook that puts packs of compiled kernels into wheels: when it makes them, what it adds, and what it says when it cannot."""

import importlib.util
import subprocess
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Interface:
    """Stands for Hatchling's, which is there only while a wheel is built."""

    def __class_getitem__(cls, item):
        return cls

    def __init__(self, target_name):
        self.root, self.target_name, self.said = str(ROOT), target_name, []
        self.metadata = types.SimpleNamespace(core=types.SimpleNamespace(dependencies=["numpy>=2.0"]))
        self.app = types.SimpleNamespace(display_error=self.said.append)


@pytest.fixture
def hook(monkeypatch):
    """A hook for a target, and what it would run: `ran` is a list of commands; `result` what they end with."""
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    interface = types.ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = Interface
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("build_hook", ROOT / "tools" / "build_hook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("DYNOGRAD_PACK", "DYNOGRAD_PACK_LEVELS", "DYNOGRAD_PACK_PROGRAMS"):
        monkeypatch.delenv(name, raising=False)

    def make(target="wheel", result=0):
        instance = module.PackHook(target)
        instance.ran = []

        def run(command, **options):
            instance.ran.append(command[2:])
            if not result:
                Path(command[3], "x86-64-v3-linux-numba0.1.pack").write_bytes(b"a pack")
            return subprocess.CompletedProcess(command, result)

        monkeypatch.setattr(module.subprocess, "run", run)
        return instance

    return make


def initialize(hook, version="standard"):
    build_data = {"force_include": {}, "pure_python": True}
    hook.initialize(version, build_data)
    return build_data


def test_a_wheel_has_the_pack_and_is_for_one_platform(hook, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_PACK_LEVELS", "x86-64-v3")
    wheel = hook()
    build_data = initialize(wheel)
    ((source, target),) = build_data["force_include"].items()
    assert target == "dynograd/kernels/packs/x86-64-v3-linux-numba0.1.pack" and Path(source).read_bytes() == b"a pack"
    assert build_data["tag"].startswith("py3-none-") and not build_data["pure_python"]
    assert wheel.ran[0][2] == "x86-64-v3" and wheel.dependencies() == ["numpy>=2.0"]
    wheel.finalize("standard", build_data, "")
    assert not Path(source).exists()


@pytest.mark.parametrize(
    "target, version, variables",
    [
        ("sdist", "standard", {}),
        ("wheel", "editable", {}),
        ("wheel", "standard", {"DYNOGRAD_PACK": "0"}),
    ],
)
def test_where_no_pack_is_made(hook, monkeypatch, target, version, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    without = hook(target)
    assert initialize(without, version) == {"force_include": {}, "pure_python": True}
    assert not without.ran and without.dependencies() == ([] if variables else ["numpy>=2.0"])
    without.finalize(version, {}, "")


def test_a_pack_that_cannot_be_made_is_left_out(hook):
    failing = hook(result=1)
    assert initialize(failing) == {"force_include": {}, "pure_python": True}
    (message,) = failing.said
    assert "could not be made" in message and "The wheel is built without it" in message


def test_levels_that_were_asked_for_must_be_there(hook, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_PACK_LEVELS", "x86-64-v3,x86-64-v4")
    with pytest.raises(RuntimeError, match="for x86-64-v3,x86-64-v4 could not be made"):
        initialize(hook(result=1))
