"""Waiting for other processes, and saying who does not come: dead, ended, hanging, or in another collective.

Each process writes on the board of its host what it calls, and looks at the others when it has waited for a while.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from dynograd.distributed import board as boards
from dynograd.distributed.board import Board
from dynograd.errors import RankError

__all__ = ["Watch"]

_SPINS = 2000  # tests before the first pause
_PAUSE = 0.0002  # seconds
_LOOK = 0.2  # seconds between looks at the others


class Watch:
    """What one process of a group knows of the others on its host.

    Args:
        board: of the host.
        place: of this process on the board.
        places: of the group's processes on the board, by their ranks in the group; None for those of other hosts.
        number: of the group, the same in all of its processes.
        patience: how long a process may be waited for, in seconds.
    """

    def __init__(self, board: Board, place: int, places: list[int | None], number: int, patience: float) -> None:
        self.board, self.place, self.number, self.patience = board, place, number, patience
        self.places = places
        self._here = [(rank, other) for rank, other in enumerate(places) if other is not None and other != place]
        self._others = np.array([other for _, other in self._here], np.int64)
        self._mine = board.records[place : place + 1]
        self._count = self._parts = 0

    def of_part(self, members: list[int]) -> Watch:
        """The watch of a group of some of these processes."""
        self._parts += 1
        number = zlib.crc32(f"{self.number} {self._parts} {members}".encode())
        return Watch(self.board, self.place, [self.places[rank] for rank in members], number, self.patience)

    def begin(self, call: str, line: str) -> None:
        """Notes that this process calls a collective at `line`; `call` is the same text in all processes."""
        record, count = self._mine, self._count
        slot = count % boards.WIDTH
        record["digests"][0, slot] = zlib.crc32(call.encode())
        record["groups"][0, slot] = self.number
        record["numbers"][0, slot] = count
        record["call"], record["line"] = boards.shortened(call, "call"), boards.shortened(line, "line")
        record["since"] = time.time()
        record["waits"] = 1
        self._count = count + 1

    def end(self) -> None:
        """Notes that it is done, and raises if another process has called something else."""
        self._mine["waits"] = 0
        self._mine["since"] = time.time()
        self._compare()

    def wait(self, test: Callable[[], Any], patience: float | None = None) -> None:
        """Waits until `test()` is true, or raises `RankError`."""
        patience = self.patience if patience is None else patience
        for _ in range(_SPINS):
            if test():
                return
        start = look = time.monotonic()
        while not test():
            time.sleep(_PAUSE)
            now = time.monotonic()
            if now - look >= _LOOK:
                look = now
                self._mine["since"] = time.time()
                self._compare()
                self.look(now - start, patience)

    def _compare(self) -> None:
        slot = (self._count - 1) % boards.WIDTH
        records = self.board.records
        digest = self._mine["digests"][0, slot]
        others = self._others
        same_call = (records["numbers"][others, slot] == self._count - 1) & (
            records["groups"][others, slot] == self.number
        )
        differ = same_call & (records["digests"][others, slot] != digest)
        if differ.any():
            rank, place = self._here[int(np.argmax(differ))]
            raise _of(
                rank,
                place,
                "called another collective than the others",
                f"{self._call(self.place)} is not what rank {rank} called as the collective {self._count} of this group: "
                f"{self._call(place)}. All ranks must call the same collectives, with the same shapes and dtypes, in the same order.",
            )

    def look(self, seconds: float, patience: float) -> None:
        """Raises if a process that has not come is dead, has ended, or is waited for longer than the patience."""
        late = [(rank, place) for rank, place in self._here if not self._has_come(place)]
        for rank, place in late:
            self._look_at(rank, place)
            if self.board.records["state"][place] == boards.ENDED:
                self._raise(rank, place, "has ended")
        if seconds >= patience:
            for rank, place in late:
                self._raise(rank, place, f"has not come for {seconds:.0f} s")
            for (
                rank,
                place,
            ) in self._here:  # it has come, and been stopped in the collective: who waits says so now and then
                if time.time() - self.board.records["since"][place] > seconds / 2:
                    self._raise(rank, place, f"has not come for {seconds:.0f} s")
            elsewhere = [rank for rank, place in enumerate(self.places) if place is None]
            raise RankError(
                f"{self._call(self.place)}: not all ranks have come in {seconds:.0f} s. Those on this host are there"
                + (f"; ranks {elsewhere} run on other hosts." if elsewhere else ".")
            )

    def _look_at(self, rank: int, place: int) -> None:
        state = int(self.board.records["state"][place])
        if state == boards.FAILED:
            self._raise(rank, place, self.board.text(place, "error"))
        if state == boards.RUNNING and not self.board.is_alive(place):
            self._raise(rank, place, "is dead")

    def look_at_all(self, seconds: float) -> None:
        """Raises if a process is dead or has failed, also one that has come to this collective, and if `seconds` are longer than the patience."""
        for rank, place in self._here:
            self._look_at(rank, place)
        if seconds >= self.patience:
            raise RankError(
                f"{self._call(self.place)}: all ranks have come, and their GPUs are not done in {seconds:.0f} s."
            )

    def _has_come(self, place: int) -> bool:
        records, last = self.board.records[place], self._count - 1
        slot = last % boards.WIDTH
        return bool(records["groups"][slot] == self.number and records["numbers"][slot] >= last)

    def _call(self, place: int) -> str:
        call, line = self.board.text(place, "call"), self.board.text(place, "line")
        return f"{call} at {line}" if call else "no collective yet"

    def _raise(self, rank: int, place: int, what: str) -> None:
        record = self.board.records[place]
        step = f" in step {record['step']}" if record["step"] >= 0 else ""
        raise _of(
            rank,
            place,
            what,
            f"{self._call(self.place)}: rank {rank} (pid {record['pid']}) {what}{step}; the last collective it called: "
            f"{self._call(place)}.",
        )


def _of(rank: int, place: int, reason: str, text: str) -> RankError:
    error = RankError(text)
    error.rank, error.place, error.reason = rank, place, reason
    return error
