"""What a job that ended badly leaves running: ranks that are stopped, workers of loaders. On Linux the launcher becomes their parent, and ends them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["Orphans"]

_PR_SET_CHILD_SUBREAPER = 36
_GRACE = 0.3  # seconds in which they may end by themselves: who has lost its parent often does
_LONGER = 2.0  # for those that delete what others have left in shared memory
_MOST = 10.0


class Orphans:
    """Inside, processes whose parents have ended become children of this process."""

    def __init__(self) -> None:
        self._before: set[int] = set()
        self._adopts = False

    def __enter__(self) -> Orphans:
        self._before = _children()
        self._adopts = sys.platform == "linux" and _adopt(True)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._adopts:
            _adopt(False)
            self._reap()

    def _reap(self) -> set[int]:
        """The adopted children that still run; those that have ended are taken note of."""
        while True:
            children = _children() - self._before
            ended = {pid for pid in children if _has_ended(pid)}
            if not ended:  # else their children may have become ours meanwhile
                return children

    def end(self) -> None:
        """Ends them all, and waits until they have."""
        if not self._adopts:
            return
        begun = time.monotonic()
        while (rest := self._reap()) and (passed := time.monotonic() - begun) < _MOST:
            if passed > _GRACE:
                for pid in rest:
                    if passed > _LONGER or not _tidies(pid):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


def _adopt(adopts: bool) -> bool:
    try:
        return ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def _children() -> set[int]:
    children, own = set(), os.getpid()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text(errors="replace").rsplit(")", 1)[1].split()[1]) == own:
                children.add(int(path.parent.name))
    return children


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _tidies(pid: int) -> bool:
    """Whether it is a resource tracker of multiprocessing, which ends when it has deleted what its program used."""
    with contextlib.suppress(OSError):
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
