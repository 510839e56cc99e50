"""Reductions in memory that the processes of one host share (an MPI window): a slice by each process, chunk by chunk through the cache.

Each process has one window of two halves, used in turns, so that two meetings a chunk are enough: all have written, all have joined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynograd.distributed.communicators.protocol import parts_of
from dynograd.distributed.reductions import ReduceOp, join

__all__ = ["CHUNK", "Windows"]

CHUNK = 1 << 21  # bytes of each half; the largest that was no slower for 25 MiB, a second-level cache's size
_HEAD = 64  # bytes for the number of meetings


class Windows:
    """The windows of all processes of a host.

    Args:
        memories: one buffer for each process, all of them mapped here.
        rank: of this process.
        sync: makes writes of this process seen, and those of others visible here.
        wait: waits for a test to be true.
    """

    def __init__(
        self, memories: list[Any], rank: int, sync: Callable[[], None], wait: Callable[[Callable[[], Any]], None]
    ) -> None:
        self.rank, self.size = rank, len(memories)
        self._sync, self._wait = sync, wait
        self._meetings = [np.frombuffer(memory, np.int64, 1) for memory in memories]
        self._halves = [
            [np.frombuffer(memory, np.uint8, CHUNK, _HEAD + half * CHUNK) for memory in memories] for half in (0, 1)
        ]
        self._met = self._turn = 0

    @staticmethod
    def bytes_of_one() -> int:
        """How large the memory of one process is."""
        return _HEAD + 2 * CHUNK

    def _meet(self) -> None:
        self._met += 1
        met, meetings = self._met, self._meetings
        self._sync()
        meetings[self.rank][0] = met
        self._sync()
        for other in meetings:
            if other[0] < met:
                self._wait(lambda other=other: other[0] >= met)  # type: ignore[misc]
        self._sync()

    def all_reduce(self, array: np.ndarray, op: ReduceOp) -> None:
        """Joins `array` in place; the same bits come of it everywhere, whatever the chunks are."""
        rank, size = self.rank, self.size
        step = CHUNK // array.itemsize
        for start in range(0, array.size, step):
            chunk = array[start : start + step]
            parts = parts_of(chunk.size, size)
            own = parts[rank]
            windows = [half[: chunk.nbytes].view(array.dtype) for half in self._halves[self._turn]]
            self._turn = 1 - self._turn
            mine = windows[rank]
            mine[: own.start] = chunk[: own.start]
            mine[own.stop :] = chunk[own.stop :]
            self._meet()
            terms = [chunk[own] if place == rank else window[own] for place, window in enumerate(windows)]
            joined = mine[own]
            join(op, terms, joined)
            chunk[own] = joined
            self._meet()
            for place, part in enumerate(parts):
                if place != rank:
                    chunk[part] = windows[place][part]
