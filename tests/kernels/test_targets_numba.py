"""The target of our kernels: code for a level of processors, while functions of the user stay as Numba has them."""

import gc
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numba.core.registry import cpu_target

from dynograd.base import cache_files
from dynograd.kernels.build import kernel_cache, packs, processors, targets_numba
from dynograd.kernels.build.compiling_numba import compile_source

ROOT = Path(__file__).parents[2]


def libraries_of(function):
    (result,) = function.overloads.values()
    return [result.library, *result.library._linking_libraries]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    return tmp_path / "kernels"


def test_kernels_and_all_that_they_call_are_for_our_processor(folder):
    helper = compile_source("def helper(x):\n    return x * 2 + 1\n", "helper")
    text = "def caller(x):\n    y = np.zeros(3)\n    return y.sum() + helper(x).sum()\n"
    caller = compile_source(text, "caller", {"helper": helper, "np": np})
    assert caller(np.ones(4)) == 12
    chosen = processors.processor()
    for library in libraries_of(caller):
        if library.name != "nrt":  # Numba's own, compiled for whoever came first
            assert library._codegen.magic_tuple()[1:] == (chosen.cpu, chosen.features), library


def test_functions_of_the_user_are_compiled_as_ever():
    mine = njit(lambda x: np.zeros(3).sum() + x.sum())
    assert mine(np.ones(4)) == 4
    assert mine.targetctx is cpu_target.target_context
    for library in libraries_of(mine):
        assert library.name == "nrt" or library._codegen is cpu_target.target_context.codegen()


def test_numbas_settings_stay_as_they_are():
    program = """
        from numba.core import config
        before = {name: getattr(config, name) for name in dir(config) if name.isupper()}
        from dynograd.kernels.formula import math_numba
        after = {name: getattr(config, name) for name in dir(config) if name.isupper()}
        assert before == after, {name for name in before if before[name] != after[name]}
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, check=True)


def test_a_process_that_loads_imports_nothing_to_compile_with(tmp_path):
    program = """
        import sys
        import numpy as np
        from dynograd.kernels.build.compiling_numba import compile_source
        from dynograd.kernels.build import kernel_cache
        text = "def ones(n):\\n    x = np.zeros(n)\\n    x[:] = 1\\n    return x[1:]\\n"
        assert compile_source(text, "ones", {"np": np})(3).tolist() == [1.0, 1.0]
        print(kernel_cache.statistics()["loaded"], "numba.np.linalg" in sys.modules, "scipy.linalg" in sys.modules)
        double = compile_source("def double(n):\\n    return ones(n) * 2\\n", "double", {"ones": compile_source(text, "ones", {"np": np})})
        assert double(3).tolist() == [2.0, 2.0]
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DYNOGRAD_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    first, second = (
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True) for _ in range(2)
    )
    assert first.stdout.split()[:2] == ["0", "True"]
    assert second.stdout.split() == ["1", "False", "False"]


@pytest.mark.parametrize("on", [True, False])
def test_garbage_is_collected_as_before_once_a_kernel_is_there(on, folder):
    frozen, seen = gc.get_freeze_count(), []
    before = gc.isenabled()
    (gc.enable if on else gc.disable)()
    try:
        with targets_numba._compiling():
            seen.append(gc.isenabled())
            with targets_numba._compiling():
                seen.append(gc.isenabled())
            seen.append(gc.isenabled())
        assert seen == [False] * 3
        assert gc.isenabled() == on
        assert gc.get_freeze_count() == frozen
    finally:
        (gc.enable if before else gc.disable)()


def test_names_of_machine_functions_differ_between_processes():
    word = re.search(r"v3_(\w{10})", targets_numba._mangled("name", (), uid=3)).group(1)
    assert word == targets_numba._word_of(os.getpid()) != targets_numba._word_of(os.getpid() + 1)


def test_a_kernel_without_bitcode_can_be_a_part_of_another(folder):
    text = "def halved(x):\n    return x / 2\n"
    assert compile_source(text, "halved")(5.0) == 2.5
    (entry,) = folder.glob("*.kernel")
    machine_code, bitcode = kernel_cache.parted(kernel_cache.read(entry.stem))
    assert bitcode
    kernel_cache.write(entry.stem, kernel_cache.joined(machine_code, b""))
    before = kernel_cache.statistics()
    halved = compile_source(text, "halved")
    caller = compile_source("def caller(x):\n    return halved(x) + 1\n", "caller", {"halved": halved})
    assert caller(5.0) == 3.5
    after = kernel_cache.statistics()
    assert after["loaded"] == before["loaded"] + 1 and after["compiled"] == before["compiled"] + 1


def test_parts_of_kernels_are_not_asked_for(folder):
    before = set(kernel_cache.used())
    helper = compile_source("def third(x):\n    return x / 3\n", "third")
    compile_source("def caller(x):\n    return third(x) + 2\n", "caller", {"third": helper})(3.0)
    assert len(set(kernel_cache.used()) - before) == 1
    assert len(list(folder.glob("*.kernel"))) == 1


def test_a_damaged_entry_of_a_pack_and_of_the_folder_are_compiled_anew(folder, monkeypatch):
    monkeypatch.setattr(packs, "read", lambda name, level, version: b"no payload" if name not in refused else None)
    monkeypatch.setattr(packs, "refuse", lambda name: name not in refused and not refused.add(name))
    refused = set()
    before = kernel_cache.statistics()
    assert compile_source("def quarter(x):\n    return x / 4\n", "quarter")(4.0) == 1
    after = kernel_cache.statistics()
    assert after["compiled"] == before["compiled"] + 1 and after["damaged"] == before["damaged"] + 1
