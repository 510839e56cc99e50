"""Threads of one process that stand for processes: each has an engine, and they meet in shared memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynograd.distributed.communicators.exposed import Exposed, Mapped
from dynograd.distributed.communicators.protocol import Communicator, Message
from dynograd.errors import RankError

__all__ = ["Meeting", "Simulated"]


class Meeting:
    """Where `size` threads meet: each brings something, and takes what it needs of the others' when all are there."""

    def __init__(self, size: int, patience: float) -> None:
        self.size, self.patience = size, patience
        self.brought: list[Any] = [None] * size
        self.shared: dict[Any, Any] = {}
        self.lock = threading.Lock()
        self.mail: dict[tuple[int, int, int], list[np.ndarray]] = {}
        self.posted = threading.Condition()
        self.failure: str | None = None
        self.left: set[int] = set()
        self._barrier = threading.Barrier(size)

    def wait(self, rank: int) -> None:
        """Waits for the others; raises if one of them has ended, or does not come in time."""
        if self.left:
            self.end(f"rank {min(self.left)} has ended")
        try:
            self._barrier.wait(self.patience)
        except threading.BrokenBarrierError:
            raise RankError(self._why(rank)) from None

    def end(self, reason: str) -> None:
        """Ends the meeting: who waits hears why."""
        if self.failure is None:
            self.failure = reason
        self._barrier.abort()
        for part in self.shared.get("parts", ()):
            part.end(reason)
        with self.posted:
            self.posted.notify_all()

    def leave(self, rank: int) -> None:
        """A process has ended well: who still waits for it hears so."""
        with self.posted:
            self.left.add(rank)
            is_last = len(self.left) == self.size
        if not is_last and self._barrier.n_waiting:
            self.end(f"rank {rank} has ended")

    def _why(self, rank: int) -> str:
        if self.failure is None:
            self.failure = f"not all of {self.size} ranks have come in {self.patience:g} s; rank {rank} waited"
        return self.failure

    def post(self, key: tuple[int, int, int], array: np.ndarray) -> None:
        """Puts a message into the mail: of (sender, receiver, tag)."""
        with self.posted:
            self.mail.setdefault(key, []).append(array)
            self.posted.notify_all()

    def fetch(self, rank: int, source: int | None, tag: int, waits: bool) -> tuple[int, np.ndarray] | None:
        """The next message for `rank` with this tag, from one process or from any; None if there is none yet, and nobody waits."""
        sources = range(self.size) if source is None else (source,)

        def find() -> tuple[int, int, int] | None:
            return next((key for place in sources if self.mail.get(key := (place, rank, tag))), None)

        with self.posted:
            if waits:
                self.posted.wait_for(lambda: self.failure or find(), self.patience)
            key = find()
            if key is not None:
                return key[0], self.mail[key].pop(0)
            if waits or self.failure:
                raise RankError(self._why(rank))
            return None


class _Sent(Message):
    def test(self) -> bool:
        return True

    def wait(self) -> None:
        pass


class _Received(Message):
    def __init__(self, meeting: Meeting, rank: int, array: np.ndarray, source: int | None, tag: int) -> None:
        self._meeting, self._rank, self._array, self._from, self._tag = meeting, rank, array, source, tag
        self._is_done = False

    def _take(self, waits: bool) -> bool:
        if not self._is_done:
            message = self._meeting.fetch(self._rank, self._from, self._tag, waits)
            if message is not None:
                self.source, sent = message
                _copy(self._array, sent)
                self._is_done = True
        return self._is_done

    def test(self) -> bool:
        return self._take(False)

    def wait(self) -> None:
        self._take(True)


class Simulated(Communicator):
    """One of the threads of a `Meeting`."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank, self.size = meeting, rank, meeting.size

    def _exchange(self, mine: Any, take: Callable[[list[Any]], None]) -> None:
        meeting = self.meeting
        meeting.brought[self.rank] = mine
        meeting.wait(self.rank)
        take(meeting.brought)
        meeting.wait(self.rank)

    def begin(self, call: str, line: str) -> None:
        def take(brought: list[Any]) -> None:
            for place, (other, where) in enumerate(brought):
                if other != call:
                    error = RankError(
                        f"{call} at {line} is not what rank {place} called: {other} at {where}. All ranks must call the same "
                        f"collectives, with the same shapes and dtypes, in the same order."
                    )
                    error.rank = place
                    raise error

        self._exchange((call, line), take)

    def all_to_all(self, sends: Sequence[np.ndarray], receives: Sequence[np.ndarray]) -> None:
        def take(brought: list[Any]) -> None:
            for place, result in enumerate(receives):
                _copy(result, brought[place][self.rank])

        self._exchange(sends, take)

    def all_gather(self, array: np.ndarray, results: Sequence[np.ndarray]) -> None:
        def take(brought: list[Any]) -> None:
            for place, result in enumerate(results):
                if place != self.rank or result is not array:
                    _copy(result, brought[place])

        self._exchange(array, take)

    def broadcast(self, array: np.ndarray, root: int) -> None:
        self._exchange(array, lambda brought: _copy(array, brought[root]) if self.rank != root else None)

    def gather(self, array: np.ndarray, results: Sequence[np.ndarray] | None, root: int) -> None:
        def take(brought: list[Any]) -> None:
            for place, result in enumerate(results or ()):
                _copy(result, brought[place])

        self._exchange(array, take)

    def scatter(self, arrays: Sequence[np.ndarray] | None, result: np.ndarray, root: int) -> None:
        self._exchange(arrays, lambda brought: _copy(result, brought[root][self.rank]))

    def start_send(self, array: np.ndarray, to: int, tag: int) -> Message:
        self.meeting.post((self.rank, to, tag), array.copy())
        return _Sent()

    def start_receive(self, array: np.ndarray, source: int | None, tag: int) -> Message:
        return _Received(self.meeting, self.rank, array, source, tag)

    def barrier(self) -> None:
        self.meeting.wait(self.rank)

    def expose(self, count: int, dtype: np.dtype) -> Exposed:
        arrays: list[np.ndarray] = []
        self._exchange(np.zeros(count, dtype), arrays.extend)
        return Mapped(arrays, self.rank)

    def split(self, ranks: Sequence[int]) -> Communicator | None:
        members = list(ranks)
        meeting = Meeting(len(members), self.meeting.patience) if members and self.rank == members[0] else None
        result: list[Communicator | None] = [None]

        def take(brought: list[Any]) -> None:
            if self.rank in members:
                result[0] = Simulated(brought[members[0]], members.index(self.rank))

        self._exchange(meeting, take)
        if meeting is not None:
            self.meeting.shared.setdefault("parts", []).append(meeting)
        return result[0]

    def close(self) -> None:
        pass


def _copy(result: np.ndarray, sent: np.ndarray) -> None:
    if result.nbytes != sent.nbytes:
        raise RankError(f"a message of {sent.nbytes} bytes came where {result.nbytes} bytes were expected")
    result.view(np.uint8)[...] = sent.view(np.uint8)
