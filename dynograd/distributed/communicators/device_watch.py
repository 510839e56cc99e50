"""Watching what GPUs do for a group: hosts have met before each call of NCCL, but who dies behind that would be waited for on the device for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from dynograd.cuda.streams import Event
from dynograd.errors import RankError

__all__ = ["DeviceWatch"]

_PAUSE = 0.5  # seconds between looks
_RUNNING = (0, 7)  # ncclSuccess and ncclInProgress


class DeviceWatch:
    """A thread that gives up a communicator of NCCL when another process has died, when NCCL has failed, or when the patience is at its end.

    Args:
        nccl: a communicator of nccl4py; it becomes this object's own.
        look: raises `RankError` where another process does not go on; it is told for how many seconds the GPU has worked.
        pause: seconds between looks.
    """

    def __init__(self, nccl: Any, look: Callable[[float], None], pause: float = _PAUSE) -> None:
        self._nccl, self._look = nccl, look
        self.error: RankError | None = None  # why it was given up
        self._last: tuple[Event, float] | None = None  # an event of the last call, and when that was
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, args=(pause,), name="watch of NCCL", daemon=True)
        self._thread.start()

    def note(self, event: Event) -> None:
        """The last call is done where this event is."""
        self._last = (event, time.monotonic())

    def check(self) -> None:
        """Raises where the communicator was given up, or NCCL tells of an error."""
        if self.error is None:
            self._ask()
        if self.error is not None:
            raise self.error

    def abort(self) -> None:
        """Gives up what the GPU does for the group, so that streams which wait for it go on."""
        self._stopped.set()
        with self._lock:
            nccl, self._nccl = self._nccl, None
            if nccl is not None:
                nccl.abort()

    def close(self) -> None:
        """Gives back the communicator, when nothing is under way any more."""
        self._stopped.set()
        self._thread.join()
        with self._lock:
            nccl, self._nccl = self._nccl, None
            if nccl is not None:
                nccl.destroy()

    def _ask(self) -> None:
        with self._lock:
            if self._nccl is None:
                return
            state = self._nccl.get_async_error()
            if int(state) in _RUNNING:
                return
            from nccl import core

            text = f"NCCL failed: {core.get_error_string(state)}; {self._nccl.get_last_error()}"
        self._give_up(RankError(text))

    def _give_up(self, error: RankError) -> None:
        self.error = error
        self.abort()

    def look(self) -> None:
        """Asks once: what the thread does again and again."""
        if self._last is None or self._last[0].query():
            return
        self._ask()
        if self.error is None:
            try:
                self._look(time.monotonic() - self._last[1])
            except RankError as error:
                self._give_up(error)

    def _watch(self, pause: float) -> None:
        while not self._stopped.wait(pause):
            self.look()
