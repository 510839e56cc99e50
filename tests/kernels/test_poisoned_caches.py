"""Caches that others have touched: what is not the user's own, or not the entry's, is compiled again, and numbers are right."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here"),
]

PROGRAM = """
    import numpy as np
    import dynograd
    from dynograd.kernels.build import kernel_cache
    from tests.support.packed_kernels import doubled_sum, first
    assert (doubled_sum(np.arange(8.0)), first(np.arange(1.0, 8.0))) == (56, 1)
    x = dynograd.tensor([-1.0, 2.0])
    assert (dynograd.relu(x) + dynograd.exp(x * 0)).tolist() == [1.0, 3.0]
    statistics = kernel_cache.statistics()
    print(*[statistics[name] for name in ("compiled", "loaded", "damaged")])
"""


def run(cache):
    """(compiled, loaded, damaged, what was said) by a process with this cache."""
    environment = {**os.environ, "DYNOGRAD_CACHE_DIR": str(cache), "DYNOGRAD_PACK": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return *map(int, done.stdout.split()), done.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that a process has filled, and how many kernels that were."""
    cache = tmp_path_factory.mktemp("filled") / "cache"
    compiled, _, _, said = run(cache)
    assert compiled >= 2 and not said and len(kernels(cache)) >= 2
    loaded = run(cache)
    assert (loaded[0], loaded[2]) == (0, 0) and not loaded[3]
    return cache, compiled


def kernels(cache):
    return sorted((cache / "kernels").glob("*.kernel"))


def each(change):
    """A change of each entry, those of functions included."""

    def poison(cache):
        for entry in (*kernels(cache), *sorted((cache / "functions").rglob("*.code"))):
            change(entry)

    return poison


def rewrite(entry, data):
    entry.write_bytes(data)


def exchange(cache):
    """Every entry has the contents of another one."""
    for entries in (kernels(cache), sorted((cache / "functions").rglob("*.code"))):
        contents = [entry.read_bytes() for entry in entries]
        for entry, content in zip(entries, contents[1:] + contents[:1]):
            entry.write_bytes(content)


def link(entry):
    elsewhere = entry.with_suffix(".elsewhere")
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)


def instead(make):
    def change(entry):
        entry.unlink()
        make(entry)

    return change


def foreign(path):
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 4321, -1)


ENTRIES = {
    "a changed byte": each(lambda entry: rewrite(entry, entry.read_bytes()[:-1] + b"?")),
    "cut": each(lambda entry: rewrite(entry, entry.read_bytes()[:-7])),
    "cut in its digest": each(lambda entry: rewrite(entry, entry.read_bytes()[:30])),
    "empty": each(lambda entry: rewrite(entry, b"")),
    "an older version": each(lambda entry: rewrite(entry, entry.read_bytes().replace(b" 3\n", b" 2\n", 1).replace(b"function 2", b"function 1", 1))),
    "exchanged": exchange,
    "others can write it": each(lambda entry: entry.chmod(0o666)),
    "the group can write it": each(lambda entry: entry.chmod(0o660)),
    "a link": each(link),
    "a pipe": each(instead(os.mkfifo)),
    "another user's": each(foreign),
}  # fmt: skip


@pytest.mark.parametrize("poison", ENTRIES.values(), ids=ENTRIES)
def test_entries_are_compiled_again(tmp_path, filled, poison):
    cache = tmp_path / "cache"
    shutil.copytree(filled[0], cache)
    poison(cache)
    compiled, loaded, damaged, said = run(cache)
    assert (compiled, loaded) == (filled[1], 0) and damaged >= 1 and not said
    assert run(cache)[0] == 0  # and kept


def linked(cache):
    """The folder is a link to one where all may write."""
    elsewhere = cache / "elsewhere"
    (cache / "kernels").rename(elsewhere)
    elsewhere.chmod(0o777)
    (cache / "kernels").symlink_to(elsewhere)


FOLDERS = {
    "others can write it": (lambda cache: (cache / "kernels").chmod(0o777), r"can be written by others \(mode 777; chmod 700 mends it\)"),
    "others can write the one above": (lambda cache: cache.chmod(0o777), r"lies in .*cache, which can be written by others \(mode 777\)"),
    "a link": (linked, r"can be written by others \(mode 777"),
    "another user's": (lambda cache: foreign(cache / "kernels"), "belongs to user 4321, not to you"),
    "in another user's": (foreign, "lies in .*cache, which belongs to user 4321, not to you"),
}  # fmt: skip


@pytest.mark.parametrize(("poison", "why"), FOLDERS.values(), ids=FOLDERS)
def test_folders_are_left_aside_with_a_warning(tmp_path, filled, poison, why):
    cache = tmp_path / "cache"
    shutil.copytree(filled[0], cache)
    poison(cache)
    before = {entry: entry.read_bytes() for entry in kernels(cache)}
    compiled, loaded, _, said = run(cache)
    assert (compiled, loaded) == (filled[1], 0)
    assert re.search(why, said) and said.count("the folder for compiled kernels") == 1
    assert {entry: entry.read_bytes() for entry in kernels(cache)} == before
