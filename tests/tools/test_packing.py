"""Making packs: what goes into one, what a process that has it compiles, and what stops the making."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import pytest

from dynograd.base import cache_files
from dynograd.kernels.build import kernel_cache, packs, processors
from dynograd.tools import packing
from dynograd.tools.pack_programs import PROGRAMS

ROOT = Path(__file__).parents[2]
PROGRAM = """
    import sys
    from dynograd.kernels.build import kernel_cache, packs
    if sys.argv[1:]:
        import pathlib
        packs.folder_of_the_library = lambda: pathlib.Path(sys.argv[1])
    import numpy as np
    from tests.support.packed_kernels import doubled_sum
    assert doubled_sum(np.ones(5)) == 10
    print(kernel_cache.statistics())
"""
LEVEL = next(iter(processors.level_names()), None)
needs_level = pytest.mark.skipif(LEVEL is None, reason="this processor is below every level that has packs")


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    """A pack of two kernels, made as `make_pack` makes them."""
    folder = tmp_path_factory.mktemp("pack")
    program = (
        "from dynograd.tools import packing, pack_programs\n"
        "from tests.support.packed_kernels import PROGRAMS\n"
        "pack_programs.PROGRAMS.update(PROGRAMS)\n"
        "packing._MODULE = 'tests.support.packed_kernels'\n"
        f"print(*packing.make_pack([], {str(folder)!r}, 2, True, list(PROGRAMS)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("DYNOGRAD_PROCESSOR", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return Path(done.stdout.strip())


def run(folder, tmp_path, **environment):
    """What the program above says in a process with this folder of packs: (statistics, lines of warnings)."""
    variables = {"DYNOGRAD_CACHE_DIR": str(tmp_path / "cache"), **environment}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "UserWarning: dynograd" in line]
    return eval(done.stdout.splitlines()[-1]), warnings


@needs_level
class TestPack:
    def test_it_says_what_it_is_for(self, pack):
        assert pack.name == packs.file_name(LEVEL, numba.__version__)
        opened = packs.Pack.open(pack)
        assert opened.made_for == {"level": LEVEL, "numba": numba.__version__, "system": sys.platform}
        assert len(opened.names()) == 2
        machine_code, bitcode = kernel_cache.parted(opened.read(opened.names()[0]))
        assert machine_code and not bitcode

    def test_a_process_with_it_compiles_nothing(self, pack, tmp_path):
        expected = {"compiled": 0, "loaded": 0, "packed": 1, "damaged": 0}
        statistics, warnings = run(pack.parent, tmp_path)
        assert statistics.items() >= expected.items() and not warnings
        assert not list((tmp_path / "cache").rglob("*.kernel"))

    def test_without_the_cache_folder(self, pack, tmp_path):
        statistics, warnings = run(pack.parent, tmp_path, DYNOGRAD_CACHE="0")
        assert statistics["packed"] == 1 and not warnings

    def test_packs_turned_off(self, pack, tmp_path):
        statistics, warnings = run(pack.parent, tmp_path, DYNOGRAD_PACK="0")
        assert statistics["compiled"] > 0 and statistics["packed"] == 0 and not warnings

    def test_the_exact_processor_is_compiled_for(self, pack, tmp_path):
        statistics, warnings = run(pack.parent, tmp_path, DYNOGRAD_PROCESSOR="native")
        assert statistics["compiled"] > 0 and statistics["packed"] == 0 and not warnings

    def test_a_damaged_pack(self, pack, tmp_path):
        folder = tmp_path / "packs"
        folder.mkdir(mode=0o755)
        data = bytearray(pack.read_bytes())
        data[60] ^= 1
        (folder / pack.name).write_bytes(data)
        (folder / pack.name).chmod(0o644)
        statistics, warnings = run(folder, tmp_path)
        assert statistics["compiled"] > 0 and statistics["packed"] == 0
        assert len(warnings) == 1 and pack.name in warnings[0]

    @pytest.mark.parametrize("home", ["none", "read-only", "full"])
    def test_homes_that_cannot_be_written(self, pack, tmp_path, home):
        """The pack needs none; what it lacks is compiled in each process, and one line says why."""
        place = {"none": "/proc/nobody", "read-only": "/proc", "full": "/dev/full"}[home]
        statistics, warnings = run(pack.parent, tmp_path, DYNOGRAD_CACHE_DIR=place)
        assert statistics["packed"] == 1 and statistics["compiled"] == 0
        assert len(warnings) <= 1
        statistics, warnings = run(tmp_path, tmp_path, DYNOGRAD_CACHE_DIR=place)
        assert statistics["compiled"] > 0
        assert len(warnings) == 1 and "DYNOGRAD_CACHE_DIR" in warnings[0]

    def test_processes_that_fill_one_cache(self, tmp_path):
        """Two at once, and one that was killed while it wrote: whoever comes next finds whole entries or none."""
        (tmp_path / "cache" / "kernels").mkdir(parents=True, mode=0o700)
        (tmp_path / "cache").chmod(0o700)
        (tmp_path / "cache" / "kernels" / "0123456789ab.part").write_bytes(b"half of an en")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "DYNOGRAD_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
        children = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        outputs = [child.communicate()[0] for child in children]
        assert all(eval(output)["damaged"] == 0 for output in outputs)
        statistics, _ = run(tmp_path, tmp_path)
        assert statistics["compiled"] == 0 and statistics["loaded"] == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"levels": ["x86-64-v9"]},
            "make_pack: this machine cannot make packs for 'x86-64-v9'. It can make them for: ",
        ),
        ({"programs": ["mpl"]}, "make_pack: no program is called 'mpl'. Programs: mlp float32, "),
    ],
)
@needs_level
def test_what_cannot_be_made(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        packing.make_pack(folder=tmp_path, **arguments)
    assert not list(tmp_path.iterdir())


def test_a_machine_without_a_level(monkeypatch):
    monkeypatch.setattr(processors, "level_names", lambda: ())
    with pytest.raises(ValueError, match="below every level"):
        packing.make_pack()


@needs_level
def test_a_folder_is_needed_where_the_cache_is_off(monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE", "0")
    monkeypatch.setattr(cache_files, "_folders", {})
    with pytest.raises(RuntimeError, match="make_pack: the user's cache is off or cannot be used. Name a folder."):
        packing.make_pack()


@needs_level
def test_a_failing_program_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(PROGRAMS, "only here", lambda: None)  # the process beside does not know it
    with pytest.raises(RuntimeError, match=rf"(?s)make_pack: the program 'only here' failed for {LEVEL}.*:.*KeyError"):
        packing.make_pack(folder=tmp_path, programs=["only here"], quiet=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_runs(name):
    PROGRAMS[name]()
