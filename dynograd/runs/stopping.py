"""Requests to stop (SIGTERM of a scheduler, Ctrl-C), kept until the program is at a place where it can."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

__all__ = ["StopRequests"]


class StopRequests:
    """Inside, a signal is noted instead of ending the program; true once one has come.

    A second signal of the same kind does what it did before. Signals are Python's to handle in the main thread only: in others
    this notes nothing. A forked child (a loader's worker) is ended by the signal as ever.

    Args:
        names: which signals.

    >>> import os, signal
    >>> with dynograd.runs.StopRequests() as stop:
    ...     os.kill(os.getpid(), signal.SIGTERM)
    ...     print(bool(stop), stop.signal.name)
    True SIGTERM
    """

    def __init__(self, names: tuple[signal.Signals, ...] = (signal.SIGTERM,)) -> None:
        self.names = names
        self.signal: signal.Signals | None = None
        self._before: dict[Any, Any] = {}
        self._process = os.getpid()

    def __bool__(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> StopRequests:
        self.signal, self._process = None, os.getpid()
        if threading.current_thread() is threading.main_thread():
            self._before = {name: signal.signal(name, self._note) for name in self.names}
        return self

    def __exit__(self, *error: Any) -> None:
        if os.getpid() == self._process:
            for name, before in self._before.items():
                signal.signal(name, signal.SIG_DFL if before is None else before)
        self._before = {}

    def _note(self, number: int, frame: Any) -> None:
        if self.signal is None and os.getpid() == self._process:
            self.signal = signal.Signals(number)
            return
        before = self._before.get(number)
        if callable(before):
            before(number, frame)
            return
        signal.signal(number, signal.SIG_DFL if before is None else before)
        os.kill(os.getpid(), number)
