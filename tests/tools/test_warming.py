"""`dynograd.warmup()`: which kernels it makes, in processes of their own or here, and what it says when it cannot."""

import io

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


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def not_quiet():
    before = dynograd.is_quiet()
    dynograd.set_quiet(False)
    yield
    dynograd.set_quiet(before)


@pytest.mark.parametrize("processes", [0, 1])
def test_a_line_for_each_program(not_quiet, empty_cache, monkeypatch, capsys, processes):
    if processes == 0:
        monkeypatch.setitem(warming.PROGRAMS, "mine", lambda: None)
        dynograd.warmup("nothing", "mine", "nothing", processes=0)
        assert capsys.readouterr().err.splitlines() == [
            "dynograd: warmup: nothing (1 of 2): 0 kernels compiled, 0 loaded",
            "dynograd: warmup: mine (2 of 2): 0 kernels compiled, 0 loaded",
        ]
    else:
        dynograd.warmup("nothing", processes=1)
        assert capsys.readouterr().err == "dynograd: warmup: nothing (1 of 1): 0 kernels compiled, 0 loaded\n"


def test_a_bar_on_a_terminal(not_quiet, empty_cache, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    dynograd.warmup("nothing", processes=1)
    text = stream.getvalue()
    assert "warmup: nothing: |" in text and "1 of 1 programs" in text and "0 new kernels" in text
    assert "\n" not in text and text.endswith("\r")  # it goes


def test_quiet(empty_cache, monkeypatch, capsys):
    dynograd.set_quiet()
    dynograd.warmup("nothing", processes=0)
    assert capsys.readouterr() == ("", "")


def test_the_command(empty_cache, capsys):
    assert warming.main(["nothing", "--processes", "0"]) == 0
    assert capsys.readouterr().out.startswith("0 kernels compiled, 0 were there, in 0.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mpl"], "no program is called 'mpl'. Did you mean mlp? Programs: nothing, mlp"),
        (["--processes", "-1"], "at least 0, got -1"),
    ],
)
def test_mistakes_of_the_command(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        warming.main(arguments)
    assert ended.value.code == 2 and words in capsys.readouterr().err
