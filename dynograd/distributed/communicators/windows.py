"""Reductions in memory that the processes of one host share (an MPI window): a slice by each process, chunk by chunk through the cache.

Each process has one window of two halves, used in turns, so that two meetings a chunk are enough: all have written, all have joined.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
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
                self._wait(functools.partial(_has_met, other, met))
        self._sync()

    def all_reduce(self, arrays: Sequence[np.ndarray], op: ReduceOp) -> None:
        """Joins arrays of one dtype in place; the same bits come of it everywhere, whatever the chunks are."""
        rank, size = self.rank, self.size
        for pieces, count in _chunks(arrays, CHUNK // arrays[0].itemsize):
            parts = parts_of(count, size)
            own = parts[rank]
            windows = [half[: count * arrays[0].itemsize].view(arrays[0].dtype) for half in self._halves[self._turn]]
            self._turn = 1 - self._turn
            mine = windows[rank]
            at = 0
            for piece in pieces:
                mine[at : at + piece.size] = piece
                at += piece.size
            self._meet()
            join(op, [window[own] for window in windows], mine[own])
            self._meet()
            at = 0
            for piece in pieces:
                end = at + piece.size
                for window, part in zip(windows, parts):
                    first, last = max(at, part.start), min(end, part.stop)
                    if first < last:
                        piece[first - at : last - at] = window[first:last]
                at = end


def _has_met(meetings: np.ndarray, number: int) -> bool:
    return bool(meetings[0] >= number)


def _chunks(arrays: Sequence[np.ndarray], most: int) -> Iterator[tuple[list[np.ndarray], int]]:
    """The elements of all arrays behind each other, `most` at a time: pieces of the arrays, and how many elements they have."""
    pieces: list[np.ndarray] = []
    count = 0
    for array in arrays:
        start = 0
        while start < array.size:
            piece = array[start : start + most - count]
            pieces.append(piece)
            count += piece.size
            start += piece.size
            if count == most:
                yield pieces, count
                pieces, count = [], 0
    if count:
        yield pieces, count
