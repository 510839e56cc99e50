"""`dynograd.warmup()`: which kernels it makes, in processes of their own or here, and what it says when it cannot."""

import pytest

import dynograd
from dynograd import warming
from dynograd.base import cache_files


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})


@pytest.mark.slow
def test_kernels_are_compiled_once(empty_cache):
    first = dynograd.warmup("indexing")
    assert first["compiled"] > 0
    second = dynograd.warmup("indexing")
    assert second["compiled"] == 0 and second["loaded"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in warming.PROGRAMS if name != "nothing"])
def test_every_program_runs(name):
    warming.PROGRAMS[name]()


def test_without_a_cache_it_runs_here(monkeypatch):
    monkeypatch.setattr(cache_files, "_folders", {})
    monkeypatch.setenv("DYNOGRAD_CACHE", "0")
    ran = []
    monkeypatch.setitem(warming.PROGRAMS, "mine", lambda: ran.append(True))
    assert dynograd.warmup("mine")["compiled"] == 0
    assert ran == [True]


def test_an_unknown_program():
    with pytest.raises(ValueError, match="warmup: no program is called 'mpl'. Programs: nothing, mlp, conv"):
        dynograd.warmup("mpl")


def test_a_program_that_fails(empty_cache, monkeypatch):
    monkeypatch.setitem(warming.PROGRAMS, "only here", lambda: None)  # the process beside does not know it
    with pytest.raises(RuntimeError, match=r"(?s)warmup: the program 'only here' failed:.*KeyError"):
        dynograd.warmup("only here")
