"""The disk cache of compiled kernels: entries, damage, folders that cannot be trusted, and processes that compile nothing twice."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import pytest

import dynograd
from dynograd.base import cache_files
from dynograd.kernels.build import kernel_cache
from dynograd.kernels.build.notices import Notices

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    monkeypatch.setattr(cache_files, "_full", set())
    monkeypatch.setattr(kernel_cache, "_counts", dict.fromkeys(kernel_cache._counts, 0))
    monkeypatch.setattr(kernel_cache, "_names", [])
    return tmp_path / "kernels"


def test_an_entry_comes_back(folder):
    kernel_cache.write("a" * 40, b"machine code")
    assert kernel_cache.read("a" * 40) == b"machine code"
    assert kernel_cache.statistics().items() >= {"compiled": 0, "loaded": 1, "packed": 0, "damaged": 0}.items()
    assert kernel_cache.read("b" * 40) is None
    assert not list(folder.glob("*.part"))


def test_the_folder_is_the_users_alone(folder):
    kernel_cache.write("a" * 40, b"machine code")
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("place", [0, 20, 60, -1], ids=["head", "digest", "payload", "last byte"])
def test_a_changed_byte_is_found(folder, place):
    kernel_cache.write("a" * 40, b"machine code" * 9)
    (entry,) = folder.glob("*.kernel")
    text = bytearray(entry.read_bytes())
    text[place] ^= 1
    entry.write_bytes(text)
    assert kernel_cache.read("a" * 40) is None
    assert kernel_cache.statistics()["damaged"] == 1
    assert not entry.exists()


@pytest.mark.parametrize("length", [0, 5, 40])
def test_a_cut_entry_is_found(folder, length):
    kernel_cache.write("a" * 40, b"machine code" * 9)
    (entry,) = folder.glob("*.kernel")
    entry.write_bytes(entry.read_bytes()[:length])
    assert kernel_cache.read("a" * 40) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(folder, mode):
    folder.mkdir(parents=True)
    folder.chmod(mode)
    with pytest.warns(UserWarning, match=f"can be written by others \\(mode {mode:o}.*DYNOGRAD_CACHE_DIR"):
        kernel_cache.write("a" * 40, b"machine code")
    assert not list(folder.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        assert kernel_cache.read("a" * 40) is None


def test_a_foreign_folder_is_not_used(folder, monkeypatch):
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(UserWarning, match=r"belongs to user \d+, not to you \(12345\)"):
        assert kernel_cache.folder() is None


def test_a_folder_that_cannot_be_made(folder, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cannot be made"):
        assert kernel_cache.folder() is None


def test_a_read_only_folder(folder, monkeypatch):
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.warns(UserWarning, match="cannot be written"):
        assert kernel_cache.folder() is None


def test_a_full_disk_costs_the_entry_only(folder, monkeypatch):
    kernel_cache.folder()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert kernel_cache.keeps()
    with pytest.warns(
        UserWarning, match=r"nothing can be kept in .*kernels \(No space left on device\).*DYNOGRAD_CACHE_DIR"
    ):
        kernel_cache.write("a" * 40, b"machine code")
    assert not list(folder.iterdir()) and not kernel_cache.keeps()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        kernel_cache.write("a" * 40, b"machine code")


def test_a_cache_that_is_cleared_meanwhile(folder):
    shutil.rmtree(kernel_cache.folder())
    kernel_cache.write("a" * 40, b"machine code")  # without a warning
    assert kernel_cache.keeps()


# What a process does whose cache cannot be used: it runs, and says why in a line that names the program's own file.
UNFIT = [
    ("a file", {"DYNOGRAD_CACHE_DIR": "{}/file"}, "cannot be made"),
    ("no home", {"HOME": "{}/file", "XDG_CACHE_HOME": ""}, "cannot be made"),
    ("others", {"DYNOGRAD_CACHE_DIR": "{}/others"}, "can be written by others"),
    ("off", {"DYNOGRAD_CACHE": "0"}, ""),
]


@pytest.mark.parametrize(("variables", "why"), [row[1:] for row in UNFIT], ids=[row[0] for row in UNFIT])
def test_a_program_says_so_in_its_own_name(tmp_path, variables, why):
    """The filter that drops NumPy's warnings of lines of dynograd must not drop this one."""
    (tmp_path / "file").write_text("")
    (tmp_path / "others" / "kernels").mkdir(parents=True)
    (tmp_path / "others" / "kernels").chmod(0o777)
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy\n"
        "from dynograd.kernels.build.compiling_numba import compiled\n"
        "print(compiled(lambda x: x[0])(numpy.ones(3)))\n"
    )
    variables = {name: value.format(tmp_path) for name, value in variables.items()}
    done = subprocess.run(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1.0\n"
    if why:
        assert (
            done.stderr.startswith(f"{program}:3: UserWarning: dynograd: the folder for compiled kernels")
            and why in done.stderr
        )
    else:
        assert done.stderr == ""


def test_the_cache_can_be_turned_off(folder, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE", "0")
    kernel_cache.write("a" * 40, b"machine code")
    assert kernel_cache.folder() is None
    assert kernel_cache.read("a" * 40) is None
    assert not folder.exists()


def test_clear(folder):
    for letter in "abc":
        kernel_cache.write(letter * 40, b"machine code")
    assert dynograd.clear_kernel_cache() == 3
    assert kernel_cache.read("a" * 40) is None


PROGRAM = """
    import sys
    import numpy as np
    from dynograd.kernels.build import kernel_cache
    from tests.support.packed_kernels import doubled_sum
    assert doubled_sum(np.arange(8.0)) == 56
    print(kernel_cache.statistics())
"""


def run_program(tmp_path, **environment):
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        env={**os.environ, "DYNOGRAD_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return eval(result.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_second_process_compiles_nothing(tmp_path):
    first = run_program(tmp_path)
    assert first["compiled"] > 0 and first["loaded"] == 0
    second = run_program(tmp_path)
    assert second["compiled"] == 0 and second["loaded"] > 0

    for entry in (tmp_path / "kernels").glob("*.kernel"):  # damage everything: it is compiled again, with right results
        entry.write_bytes(entry.read_bytes()[:-7])
    third = run_program(tmp_path)
    assert third["compiled"] == first["compiled"] and third["damaged"] > 0
    assert run_program(tmp_path)["compiled"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["while it is compiled", "while it is written"])
def test_a_process_that_is_killed_leaves_nothing_wrong(tmp_path, moment):
    place = "pipeline_numba._lower" if moment == "while it is compiled" else "os.replace"
    kill = f"""
    import os, signal
    from dynograd.kernels.build import pipeline_numba
    def killed(*arguments):
        os.kill(os.getpid(), signal.SIGKILL)
    {place} = killed
    """
    environment = {**os.environ, "DYNOGRAD_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(kill) + textwrap.dedent(PROGRAM)], env=environment)
    assert done.returncode == -signal.SIGKILL
    assert run_program(tmp_path).items() >= {"loaded": 0, "damaged": 0}.items()
    assert run_program(tmp_path).items() >= {"compiled": 0, "damaged": 0}.items()


@pytest.mark.slow
def test_what_compiles_other_code_has_entries_of_its_own(tmp_path):
    run_program(tmp_path)
    assert run_program(tmp_path, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")["compiled"] > 0
    assert run_program(tmp_path, NUMBA_BOUNDSCHECK="1")["compiled"] > 0
    assert run_program(tmp_path)["compiled"] == 0


def test_counts_are_right_while_other_threads_compile(folder, monkeypatch):
    """`compiled` is the length of `names`, whenever a thread asks."""

    monkeypatch.setattr(kernel_cache, "notices", Notices())

    def compile_some():
        for number in range(2000):
            kernel_cache.note_compiled(f"kernel{number}")

    threads = [threading.Thread(target=compile_some) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        seen = [kernel_cache.statistics() for _ in range(2000)]
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert all(counts["compiled"] == len(counts["names"]) for counts in seen)
    assert kernel_cache.statistics()["compiled"] == 4000


def test_a_kernel_is_noted_while_they_are_counted(folder, monkeypatch):
    """By a finalizer here, as by another thread: CPython 3.11 collects garbage in the middle of `tuple(a_list)`, whose memory may be gone then."""
    monkeypatch.setattr(kernel_cache, "_names", [f"kernel{number}" for number in range(5000)])

    class Late:
        def __init__(self):
            self.itself = self

        def __del__(self):
            kernel_cache._names.extend(["late"] * 100_000)

    gc.collect()
    threshold = gc.get_threshold()
    gc.disable()
    Late()
    gc.set_threshold(1, 1, 1)
    gc.enable()
    try:
        counts = kernel_cache.statistics()
    finally:
        gc.set_threshold(*threshold)
    assert len(counts["names"]) == counts["compiled"] >= 5000
    assert set(counts["names"]) <= {*[f"kernel{number}" for number in range(5000)], "late"}
