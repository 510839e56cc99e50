"""A line on stderr while kernels are compiled, so that nobody waits for more than a second in silence.

On a terminal the line stands only while the compiler runs, so that nothing a program prints lands on it. Elsewhere (a file, a notebook, a
process that works for another one) a plain line says when it begins. A plain line also says when it has ended. A thread watches for as long
as kernels are compiled and a second longer; it ends before a fork and at the exit. `DYNOGRAD_QUIET=1` or `set_quiet(True)`: no lines, no thread.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Notices", "is_quiet", "notices", "set_quiet"]

PATIENCE = 1.0  # seconds: what somebody waits without asking why, and the pause after which a run of compilations counts as ended
_REFRESH = 0.5  # seconds


def _is_yes(text: str) -> bool:
    """What the value of an environment variable says."""
    return text.lower() not in ("", "0", "off", "false", "no")


_quiet = _is_yes(os.environ.get("DYNOGRAD_QUIET", ""))


def set_quiet(quiet: bool = True) -> None:
    """Whether dynograd writes no lines of its own about what it is busy with: kernels being compiled, and `warmup()`.

    The environment variable `DYNOGRAD_QUIET=1` sets it from the start. Warnings and errors are not touched.

    Args:
        quiet: True or False.

    >>> dynograd.set_quiet()
    >>> dynograd.is_quiet()
    True
    >>> dynograd.set_quiet(False)
    """
    global _quiet
    _quiet = bool(quiet)


def is_quiet() -> bool:
    """Whether `set_quiet` or `DYNOGRAD_QUIET` turned the lines off.

    Returns:
        True or False.

    >>> dynograd.set_quiet(True)
    >>> dynograd.is_quiet()
    True
    >>> dynograd.set_quiet(False)
    """
    return _quiet


class Notices:
    """Says that kernels are being compiled: `begin` and `end` around each, `count` for what came of it, `tick` from a thread that `watch` starts.

    Args:
        clock: seconds that only grow.
        stream: gives the file to write to, or None.
        watch: starts a thread for the watcher; None where the caller ticks.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        stream: Callable[[], Any] = lambda: sys.stderr,
        watch: Callable[[Notices], threading.Thread] | None = None,
    ) -> None:
        self._clock, self._stream, self._watch = clock, stream, watch
        self._at_fork = False
        self.total = 0.0  # seconds of this process and of those it was forked from
        self.reset()

    def reset(self) -> None:
        """Forgets what goes on; in a forked process it goes on in the other one."""
        self._lock = threading.RLock()
        self._finishing = threading.Event()
        self._watcher: threading.Thread | None = None
        self._bar: Any = None
        self._active = 0
        self._forget()

    def _forget(self) -> None:
        self._count, self._seconds, self._since, self._shown, self._kept = 0, 0.0, 0.0, False, True

    def begin(self, kept: bool = True) -> None:
        """The compiler starts; `kept`: what it makes is kept for the next process."""
        with self._lock:
            self._active += 1
            self._kept = kept
            if self._active > 1:
                return
            self._since = self._clock()
            if _quiet:
                return
            if self._shown or self._seconds >= PATIENCE:
                self._show()
            if self._watcher is None and self._watch is not None:
                self._register()
                self._watcher = self._watch(self)

    def count(self) -> None:
        """A kernel has come of it."""
        with self._lock:
            self._count += 1

    def end(self) -> None:
        """The compiler has ended."""
        with self._lock:
            if not self._active:  # it began before the fork
                return
            self._active -= 1
            if not self._active:
                now = self._clock()
                self._seconds += now - self._since
                self.total += now - self._since
                self._since = now
                self._erase()

    def tick(self) -> float | None:
        """Shows what is due; after how many seconds to come again, None when nothing goes on."""
        with self._lock:
            waited = self._clock() - self._since
            if self._finishing.is_set() or (not self._active and waited >= PATIENCE):
                self._conclude()
                self._watcher = None
                return None
            if not self._active:
                return PATIENCE - waited
            if self._seconds + waited < PATIENCE:
                return PATIENCE - self._seconds - waited
            if not _quiet:
                self._show()
            return _REFRESH

    def finish(self) -> None:
        """Ends the watcher, having said what there is to say."""
        watcher = self._watcher
        if watcher is not None and watcher is not threading.current_thread():
            self._finishing.set()
            watcher.join(PATIENCE)
            self._finishing.clear()

    def watching(self) -> None:
        """What the thread runs."""
        while (pause := self.tick()) is not None:
            self._finishing.wait(pause)

    def _register(self) -> None:
        if not self._at_fork:
            self._at_fork = True
            atexit.register(self.finish)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(before=self.finish, after_in_child=self.reset)

    def _show(self) -> None:
        stream, first, self._shown = self._stream(), not self._shown, True
        if not is_terminal(stream):
            if first:
                write(stream, f"dynograd: {self._doing}")
            return
        with contextlib.suppress(OSError):  # the terminal is gone
            if self._bar is None:
                self._bar = bar(stream, desc=self._text(), bar_format="{desc}")
            else:
                self._bar.set_description_str(self._text())

    @property
    def _doing(self) -> str:
        if self._kept:
            return "compiling kernels for this machine, once"
        return "compiling kernels, for this process alone since none can be kept"

    def _text(self) -> str:
        seconds = self._seconds + (self._clock() - self._since if self._active else 0.0)
        return f"{self._doing}: {_kernels(self._count)}, {seconds:.1f} s"

    def _erase(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            with contextlib.suppress(OSError):
                bar.close()

    def _conclude(self) -> None:
        self._erase()
        if self._shown and not _quiet:
            later = "; the next start loads them" if self._kept else ""
            write(self._stream(), f"dynograd: compiled {_kernels(self._count)} in {self._seconds:.1f} s{later}")
        if not self._active:
            self._forget()


def _kernels(count: int) -> str:
    return f"{count} kernel{'s' * (count != 1)}"


def is_terminal(stream: Any) -> bool:
    """Whether a line can be drawn over and over; processes that work for another one leave the terminal to that one."""
    return _is_open(stream) and hasattr(stream, "isatty") and stream.isatty() and not _is_worker()


def _is_open(stream: Any) -> bool:
    """Programs put objects of their own in the place of `sys.stderr`, which may have no more than `write`."""
    return stream is not None and not getattr(stream, "closed", False)


def _is_worker() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def write(stream: Any, line: str) -> None:
    """A plain line; bars of tqdm step aside for it."""
    # A worker may have been forked while a thread held tqdm's lock.
    tqdm = None if _is_worker() else sys.modules.get("tqdm")
    if not _is_open(stream):
        return
    with contextlib.suppress(OSError):  # nobody reads it any more
        if tqdm is not None:
            tqdm.tqdm.write(line, file=stream)
        else:
            stream.write(f"{line}\n")
        if hasattr(stream, "flush"):
            stream.flush()


def bar(stream: Any, **options: Any) -> Any:
    """A bar of tqdm, below those of the program; it goes when it is closed."""
    from tqdm import tqdm

    class Bar(tqdm):
        monitor_interval = 0  # a bar of tqdm's own kind starts a thread that stays

    return Bar(leave=False, file=stream, dynamic_ncols=True, **options)


def _thread(notices: Notices) -> threading.Thread:
    thread = threading.Thread(target=notices.watching, name="dynograd notices", daemon=True)
    thread.start()
    return thread


notices = Notices(watch=_thread)
