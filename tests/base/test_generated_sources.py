"""Text that is written while the program runs has lines for tracebacks, `inspect` and debuggers."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import dynograd
from dynograd.base import cache_files, generated_sources
from dynograd.base.generated_sources import is_unwritten, run_source, run_written, written_later

PACKAGE = Path(dynograd.__file__).parent
DIVISION = "def ratio(one, two):\n    return one / two\n"


def test_a_traceback_and_inspect_show_the_lines():
    ratio = run_source(DIVISION, "test of lines", {})["ratio"]
    with pytest.raises(ZeroDivisionError) as error:
        ratio(1, 0)
    linecache.checkcache()
    last = traceback.extract_tb(error.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.line) == ("<dynograd test of lines>", 2, "return one / two")
    assert inspect.getsource(ratio) == DIVISION


def test_two_texts_of_one_title_are_told_apart():
    first = run_source(DIVISION, "test of two", {})["ratio"]
    second = run_source("def ratio(one, two):\n\n    return two / one\n", "test of two", {})["ratio"]
    again = run_source(DIVISION, "test of two", {})["ratio"]
    assert inspect.getsource(first) == inspect.getsource(again) == DIVISION
    assert "return two / one" in inspect.getsource(second)
    assert first.__code__.co_filename == again.__code__.co_filename != second.__code__.co_filename


def test_texts_of_one_title_do_not_pile_up():
    functions = [run_source(f"def number():\n    return {n}\n", "test of many", {})["number"] for n in range(1100)]
    assert len([file for file in linecache.cache if file.startswith("<dynograd test of many")]) == 1001
    assert inspect.getsource(functions[0]) == "def number():\n    return 0\n"
    assert inspect.getsource(functions[-1]) == "def number():\n    return 1099\n"


def test_names_are_globals_and_what_is_defined_may_go_elsewhere():
    names = {"two": 2}
    defined = run_source("def doubled(x):\n    return two * x\n", "test of names", names, {})
    assert list(defined) == ["doubled"] and defined["doubled"](4) == 8 and "doubled" not in names


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache that nobody has used, for this test alone."""
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    monkeypatch.setattr(generated_sources, "_codes", {})
    generated_sources._folder_of_texts.cache_clear()
    yield tmp_path / "functions"
    generated_sources._folder_of_texts.cache_clear()


def kept(title: str, text: str = DIVISION) -> tuple:
    """The function of a text that is kept, and how often the text was written."""
    writings = []

    def write() -> str:
        writings.append(1)
        return text

    return run_written(title, {"function": write}, "function", {}, {})["ratio"], len(writings)


def test_a_text_is_left_in_a_file_for_the_next_process(cache):
    first, count = kept("test/left")
    assert count == 1 and first(1, 2) == 0.5
    path = Path(first.__code__.co_filename)
    assert path.read_text() == DIVISION and path.name == "left.py" and cache in path.parents
    generated_sources._codes.clear()  # as in another process
    again, count = kept("test/left", "this is not read")
    assert count == 0 and again(3, 4) == 0.75 and inspect.getsource(again) == DIVISION


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "gone", "no text"])
def test_a_damaged_file_is_written_again(cache, damage):
    function, _ = kept("test/damaged")
    text = Path(function.__code__.co_filename)
    bytecode = text.with_suffix(".code")
    whole = bytecode.read_bytes()
    if damage == "gone":
        bytecode.unlink()
    elif damage == "no text":
        text.unlink()
    else:
        changed = whole[:-1] + bytes([whole[-1] ^ 1])
        bytecode.write_bytes({"cut": whole[:-3], "changed": changed, "empty": b""}[damage])
    generated_sources._codes.clear()
    again, count = kept("test/damaged")
    assert count == 1 and again(1, 2) == 0.5 and bytecode.read_bytes() == whole and text.read_text() == DIVISION


def test_a_full_disk_costs_the_file_and_not_the_program(cache, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    monkeypatch.setattr(cache_files, "_full", set())
    with pytest.warns(UserWarning, match=r"nothing can be kept in .* \(No space left on device\)"):
        function, count = kept("test/full")
    assert count == 1 and function(1, 2) == 0.5 and inspect.getsource(function) == DIVISION
    assert not Path(function.__code__.co_filename).exists()


def test_texts_of_older_states_of_the_library_are_cleared_up(cache):
    for number in range(12):
        (cache / f"older-{number}").mkdir(parents=True)
        os.utime(cache / f"older-{number}", (number, number))
    kept("test/new")
    assert sorted(path.name for path in cache.glob("older-*")) == sorted(f"older-{number}" for number in range(5, 12))


def test_texts_of_a_program_are_not_left_for_others(cache):
    function = run_written("test/own", {"function": lambda: DIVISION}, "function", {}, {}, kept=False)["ratio"]
    assert function.__code__.co_filename == "<dynograd test/own>" and not cache.exists()


EVERY_FUNCTION = """
import linecache
import sys

import dynograd
from dynograd.base import generated_sources
from dynograd.ops import readers

texts, differ, as_it_is = {}, [], generated_sources.run_written

def run(title, parts, part, names, into=None, kept=True):
    text = "".join([write() for write in parts.values()])
    if kept and texts.setdefault(title, text) != text:
        differ.append(title)
    return generated_sources.run_source(parts[part](), title, names, into)

for module in list(sys.modules.values()):
    if getattr(module, "run_written", None) is as_it_is:
        module.run_written = run
for entry in list(readers._listed):
    if not entry.written:
        len(linecache.getlines(entry.function.__code__.co_filename))
print(len(texts), differ)
"""


def test_a_title_has_one_text():
    done = subprocess.run([sys.executable, "-c", EVERY_FUNCTION], capture_output=True, text=True, check=True)
    count, _, differ = done.stdout.strip().partition(" ")
    assert int(count) > 1000 and differ == "[]"


def later(title: str) -> tuple:
    """A function that is written later, and how often it was."""
    count = []

    def write() -> None:
        if is_unwritten(function.__code__):
            count.append(1)
            function.__code__ = run_source(DIVISION, title, {})["ratio"].__code__

    def choose(kwargs: dict) -> object:
        write()
        return function

    function = written_later("ratio", title, {}, write, choose)
    return function, count


def test_a_function_is_written_when_it_is_called_first():
    ratio, count = later("test of a call")
    assert not count
    assert ratio(1, two=4) == 0.25 and ratio(3, 4) == 0.75 and len(count) == 1


def test_a_function_is_written_when_somebody_looks_at_its_text():
    ratio, count = later("test of a look")
    assert inspect.getsource(ratio) == DIVISION and len(count) == 1 and ratio(3, 4) == 0.75


def test_tracing_other_than_a_debugger_is_not_paused():
    ratio, _ = later("test of tracing")
    seen: list[str] = []

    def trace(frame, event, arg):
        seen.append(frame.f_code.co_name)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        ratio(1, 2)
    finally:
        sys.settrace(before)
    assert "run_source" in seen


def test_every_text_is_run_here():
    """`exec` and `compile` elsewhere would make frames without lines. A tree of a file, and a program that is run, have the file's lines."""
    result = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "exec":
                result.append(path.relative_to(PACKAGE).as_posix())
    assert sorted(result) == [
        "base/generated_sources.py",
        "kernels/emulation/simt_emulation_cuda.py",
        "tools/running.py",
    ]


STEPS = """
import io, pdb
import dynograd as dg
import dynograd.fft
F, x, y, z = dg.nn.functional, dg.ones(2, 3), dg.ones(2, 3), dg.ones(3, 2)
CALLS = {
    "add": lambda: dg.add(x, x),
    "mul": lambda: x * y,
    "softmax": lambda: x.softmax(0),
    "relu": lambda: F.relu(x),
    "sub_": lambda: y.sub_(1),
    "matmul": lambda: x @ z,
    "getitem": lambda: x[0],
    "fft_fft": lambda: dg.fft.fft(x),
}
for name, call in CALLS.items():
    for _ in range(2):
        out = io.StringIO()
        debugger = pdb.Pdb(stdin=io.StringIO("step\\n" * 5 + "where\\ncontinue\\n"), stdout=out, nosigint=True, readrc=False)
        debugger.use_rawinput = False
        debugger.runcall(call)
        print("call of", name)
        print(out.getvalue())
"""


def test_a_step_into_an_op_lands_in_its_text():
    """At the first call in a process as later: no stop in what writes the text, and each stop with a line of it."""
    run = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    calls, folder = run.stdout.split("call of ")[1:], cache_files.folder("functions")
    assert len(calls) == 16
    for call in calls:
        name, _, shown = call.partition("\n")
        lines = shown.splitlines()
        stops = [number for number, line in enumerate(lines) if line.removeprefix("(Pdb) ").startswith("> ")]
        reached = 0
        for stop in stops[1:3]:  # behind the line of the call itself
            where = lines[stop].removeprefix("(Pdb) ")
            assert where.startswith(("> <dynograd ", f"> {folder}")) and where.endswith(f"){name}()"), call
            assert lines[stop + 1].removeprefix("-> ").strip(), call
        for stop in stops[1:]:
            reached += not lines[stop + 1].startswith("-> def ")
        assert lines[stops[1] + 1].startswith(f"-> def {name}("), call
        assert reached >= 2, call
