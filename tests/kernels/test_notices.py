"""The line that says that kernels are compiled: when it comes and goes, on terminals, in files, in workers, and when it is turned off."""

import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tqdm import tqdm

import dynograd
from dynograd.kernels.build import kernel_cache
from dynograd.kernels.build import notices as module
from dynograd.kernels.build.notices import Notices

ROOT = Path(__file__).parents[2]
BEGINS = "dynograd: compiling kernels for this machine, once\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Desk:
    """Notices with a clock that is set by hand and no thread."""

    def __init__(self, stream):
        self.now, self.stream = 0.0, stream
        self.notices = Notices(lambda: self.now, lambda: self.stream)

    def compile(self, seconds, kernels=1, tick_every=0.0, kept=True):
        self.notices.begin(kept)
        end = self.now + seconds
        while tick_every and self.now + tick_every < end:
            self.now += tick_every
            self.notices.tick()
        self.now = end
        for _ in range(kernels):
            self.notices.count()
        self.notices.end()

    def wait(self, seconds):
        self.now += seconds
        return self.notices.tick()

    @property
    def text(self):
        return self.stream.getvalue()


@pytest.fixture(autouse=True)
def not_quiet():
    before = dynograd.is_quiet()
    dynograd.set_quiet(False)
    yield
    dynograd.set_quiet(before)


def test_short_compilations_are_silent():
    for stream in (Terminal(), io.StringIO()):
        desk = Desk(stream)
        for _ in range(3):
            desk.compile(0.3)
        assert desk.wait(0.5) == 0.5 and desk.wait(0.5) is None and desk.text == ""
        desk.compile(0.9)  # what was before the pause does not count
        assert desk.wait(1.0) is None and desk.text == ""


def test_a_single_long_compilation_is_told_while_it_lasts():
    desk = Desk(io.StringIO())
    desk.notices.begin()
    desk.now = 0.25
    assert desk.notices.tick() == 0.75 and desk.text == ""
    desk.now = 1.0
    assert desk.notices.tick() == 0.5 and desk.text == BEGINS
    desk.now = 2.0
    desk.notices.tick()
    desk.notices.count()
    desk.notices.end()
    assert desk.text == BEGINS
    assert desk.wait(1.0) is None
    assert desk.text == BEGINS + "dynograd: compiled 1 kernel in 2.0 s; the next start loads them\n"


def test_many_short_ones_are_told_when_they_come_to_a_second():
    desk = Desk(io.StringIO())
    for _ in range(3):
        desk.compile(0.4)
    assert desk.text == ""
    desk.compile(0.4, kernels=2)  # nothing ticks: it is told as it begins
    assert desk.text == BEGINS
    assert desk.wait(1.0) is None
    assert desk.text.endswith("dynograd: compiled 5 kernels in 1.6 s; the next start loads them\n")


def test_kernels_within_kernels_are_counted_and_their_time_is_not_added():
    desk = Desk(io.StringIO())
    desk.notices.begin()
    desk.now = 1.0
    desk.compile(0.5)
    desk.now = 3.0
    desk.notices.count()
    desk.notices.end()
    desk.compile(0.1, kernels=0)  # one that failed
    desk.wait(1.5)
    assert "compiled 2 kernels in 3.1 s" in desk.text and desk.notices.total == pytest.approx(3.1)


def test_without_a_cache_it_is_not_said_to_be_once():
    desk = Desk(io.StringIO())
    desk.compile(2.0, tick_every=0.5, kept=False)
    desk.wait(1.0)
    assert desk.text == (
        "dynograd: compiling kernels, for this process alone since none can be kept\n"
        "dynograd: compiled 1 kernel in 2.0 s\n"
    )


def test_on_a_terminal_the_line_stands_only_while_the_compiler_runs():
    desk = Desk(Terminal())
    desk.compile(2.2, tick_every=0.5)
    assert "\rcompiling kernels for this machine, once: 0 kernels, 1.0 s" in desk.text
    assert "\rcompiling kernels for this machine, once: 0 kernels, 2.0 s" in desk.text
    assert "\n" not in desk.text and desk.text.endswith("\r" + " " * 58 + "\r")
    desk.compile(0.9)
    assert "once: 1 kernel, 2.2 s" in desk.text and desk.text.endswith("\r")
    desk.wait(1.5)
    assert desk.text.endswith("\rdynograd: compiled 2 kernels in 3.1 s; the next start loads them\n")


def screen_of(text):
    """The rows that a terminal shows of it."""
    rows, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[A|\r|\n|[^\x1b\r\n]+", text):
        if part == "\x1b[A":
            row -= 1
        elif part == "\n":
            row, column = row + 1, 0
            rows += [""] * (row == len(rows))
        elif part == "\r":
            column = 0
        else:
            rows[row] = rows[row][:column].ljust(column) + part + rows[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in rows]


def test_a_bar_of_the_program_stays_whole():
    desk = Desk(Terminal())
    bar = tqdm(total=3, desc="epoch", file=desk.stream, ncols=60, mininterval=0)
    desk.notices.begin()
    desk.now = 2.0
    desk.notices.tick()
    bar.update()
    above, below = screen_of(desk.text)
    assert above.startswith("epoch:  33%") and below == "compiling kernels for this machine, once: 0 kernels, 2.0 s"
    desk.notices.end()
    assert screen_of(desk.text) == [above, ""] and bar.pos == 0
    desk.wait(1.5)
    first, second, *_ = screen_of(desk.text)
    assert first.startswith("dynograd: compiled 0 kernels in 2.0 s") and second.startswith("epoch:  33%")
    bar.close()
    assert list(tqdm._instances) == []


def test_lines_in_a_file_stand_between_those_of_a_bar():
    desk = Desk(io.StringIO())
    bar = tqdm(total=3, desc="epoch", file=desk.stream, ncols=60, mininterval=0)
    desk.compile(2.0, tick_every=0.5)
    desk.wait(1.5)
    bar.close()
    first, second, third, *_ = screen_of(desk.text)
    assert first == BEGINS.rstrip() and second.startswith("dynograd: compiled 1") and third.startswith("epoch:")


def test_quiet():
    dynograd.set_quiet()
    desk = Desk(Terminal())
    started = []
    desk.notices._watch = started.append
    desk.compile(3.0, tick_every=0.5)
    assert desk.wait(1.0) is None and desk.text == "" and started == []


def test_quiet_from_the_midst_of_it():
    desk = Desk(Terminal())
    desk.compile(1.5, tick_every=0.5)
    dynograd.set_quiet()
    desk.compile(1.5, tick_every=0.5)
    assert desk.wait(1.0) is None and desk.text.endswith("\r")


@pytest.mark.parametrize(
    ("value", "quiet"), [("1", True), ("yes", True), ("0", False), ("false", False), ("", False), ("OFF", False)]
)
def test_what_the_environment_says(value, quiet):
    assert module._is_yes(value) == quiet


def test_the_environment_turns_it_off():
    line = "import dynograd; print(dynograd.is_quiet())"
    done = subprocess.run(
        [sys.executable, "-c", line], env={**os.environ, "DYNOGRAD_QUIET": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "True"


class Gone(Terminal):
    def write(self, text):
        raise OSError(5, "Input/output error")


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [None, closed(), Gone()], ids=["none", "closed", "gone"])
def test_nobody_reads(stream):
    desk = Desk(stream)
    desk.compile(3.0, tick_every=0.5)
    assert desk.wait(1.0) is None


class OnlyWrite:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


def test_an_object_of_the_program_in_the_place_of_stderr():
    desk = Desk(OnlyWrite())
    desk.compile(3.0, tick_every=0.5)
    desk.wait(1.5)
    assert desk.stream.text == BEGINS + "dynograd: compiled 1 kernel in 3.0 s; the next start loads them\n"


def test_what_other_programs_compile_is_not_told(monkeypatch):
    import numba

    from dynograd.kernels.build import compiling_numba

    monkeypatch.setattr(compiling_numba, "notices", None)
    assert numba.njit(lambda x: x + 1)(1) == 2


def test_workers_leave_the_terminal_to_their_parent(monkeypatch):
    monkeypatch.setattr("multiprocessing.process.parent_process", lambda: "parent")
    monkeypatch.setattr(tqdm, "write", None)
    desk = Desk(Terminal())
    desk.compile(2.0, tick_every=0.5)
    assert desk.text == BEGINS


def test_a_forked_process_begins_anew():
    desk = Desk(io.StringIO())
    desk.notices.begin()
    desk.now = 5.0
    desk.notices.reset()  # what runs in the child
    desk.notices.end()
    assert desk.wait(1.0) is None and desk.text == ""


def test_the_thread_ends_before_a_fork():
    said = io.StringIO()
    notices = Notices(stream=lambda: said, watch=module._thread)
    notices.begin()
    watcher = notices._watcher
    assert watcher.daemon and watcher in threading.enumerate()
    notices.count()
    notices.end()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if notices._watcher is None else 1)
    assert not watcher.is_alive() and notices._watcher is None
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    notices.begin()
    again = notices._watcher
    assert again is not watcher
    notices.end()
    notices.finish()
    assert not again.is_alive() and said.getvalue() == ""


def test_tqdm_is_not_imported_before_a_line_is_shown():
    program = """if True:
        import sys
        from dynograd.kernels.build import notices
        now = [0.0]
        n = notices.Notices(lambda: now[0])
        n.begin(); now[0] = 3.0; n.tick(); n.end(); now[0] = 9.0; n.tick()
        print("tqdm" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env={**os.environ, "DYNOGRAD_QUIET": "0", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n" and done.stderr.startswith(BEGINS)


def test_around_a_compilation(monkeypatch):
    desk = Desk(io.StringIO())
    monkeypatch.setattr(kernel_cache, "notices", desk.notices)
    with pytest.raises(ValueError), kernel_cache.compiling():
        desk.now = 2.5
        desk.notices.tick()
        raise ValueError
    assert desk.text == BEGINS and dynograd.kernel_cache_statistics()["seconds"] == 2.5


def test_what_is_compiled_is_told(monkeypatch, tmp_path):
    """The kernels themselves call `begin`, `count` and `end`, and statistics name them."""
    import numpy

    from dynograd.base import cache_files
    from dynograd.kernels.build import compiling_numba

    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache_files, "_folders", {})
    calls = []

    class Heard:
        total = 0.0
        begin = lambda self, kept: calls.append(("begin", kept))  # noqa: E731
        count = lambda self: calls.append("count")  # noqa: E731
        end = lambda self: calls.append("end")  # noqa: E731

    for user in (compiling_numba, kernel_cache):
        monkeypatch.setattr(user, "notices", Heard())
    source = "def inner(x):\n    return x + 1\ndef added_to(x):\n    return x[0] + x[1]\n"
    before = dynograd.kernel_cache_statistics()
    kernel = compiling_numba.compile_source(source, "added_to")
    assert kernel(numpy.array([1.0, 2.0])) == 3.0
    assert calls == [("begin", True), "end", "count"]
    after = dynograd.kernel_cache_statistics()
    assert after["names"][len(before["names"]) :] == ("added_to",)
    assert after["compiled"] == before["compiled"] + 1
    with pytest.raises(Exception, match="Cannot|No implementation|TypingError"):
        kernel(object())
    assert calls[3:] == [("begin", True), "end"]  # a failed one ends as well
