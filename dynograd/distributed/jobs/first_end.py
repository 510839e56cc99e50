"""Which process of a job on this host has ended first. MPI's own launcher ends the others at once, and may then name one of those."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path
from typing import Any

from dynograd.distributed import board as boards
from dynograd.distributed.board import Board

__all__ = ["FirstEnd"]


class FirstEnd:
    """While open, hears of each process on the board when it ends: the system closes then what the process has opened.

    Args:
        path: of the board.
        size: how many processes this host has.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.pid: int | None = None  # of the first that ended without a word
        self._board = Board(path, size)
        self._places: dict[int, int] = {}  # on the board, by file descriptors
        self._poll = select.poll()
        for place in range(size):
            pipe = boards.pipe_of(path, place)
            os.mkfifo(pipe, 0o600)
            handle = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            self._places[handle] = place
            self._poll.register(handle, select.POLLIN)
        self._open = set(self._places)
        reading, self._closing = os.pipe()
        self._poll.register(reading, select.POLLIN)
        self._own = reading
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> FirstEnd:
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        os.close(self._closing)
        self._thread.join()
        for handle in (*self._places, self._own):
            os.close(handle)
        self._board.close()

    def _listen(self) -> None:
        while self.hear():
            pass

    def hear(self) -> bool:
        """Waits for the next ones that end; False: there is nothing more to hear."""
        ended = {handle for handle, _ in self._poll.poll()}
        self._note([self._places[handle] for handle in self._open & ended])
        for handle in ended:
            self._poll.unregister(handle)
        self._open -= ended
        return self.pid is None and bool(self._open) and self._own not in ended

    def _note(self, places: list[int]) -> None:
        records = self._board.records
        if (records["state"] == boards.FAILED).any():  # one has said why the job ends, and the others are ended
            return
        silent = [place for place in places if records["state"][place] == boards.RUNNING]
        silent.sort(key=lambda place: int(records["waits"][place]))  # of several, one that nobody could wait for
        if silent:
            self.pid = int(records["pid"][silent[0]])
