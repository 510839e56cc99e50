"""Requests that wait for their answers: a bounded queue with deadlines, and the thread that works on it.

Who answers them (`pools.Pool` by turns, `serving.Batcher` in batches) gives the desk a function that takes requests until none is left.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import itertools
import math
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from time import monotonic
from types import TracebackType
from typing import Any, Self

from dynograd.errors import DeadlineError, QueueFullError

__all__ = ["Attempt", "Desk", "Request", "Stream", "positive"]

_IDLE = 10.0  # seconds after which a thread without work ends; the next request starts another
_AHEAD = 64  # values of a stream that nobody has taken yet, before its program waits


def positive(who: str, name: str, value: float | None, kind: type = float) -> None:
    """Refuses what is no positive number (of `kind`); None is fine."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, kind)) or not value > 0:
        number = "whole number" if kind is int else "number"
        raise ValueError(f"{who}: expected {name} to be a positive {number} or None, got {value!r}.")


class Attempt:
    """`with attempt:` keeps the error of its block as `error`, in place of raising it; those that end a program are raised."""

    error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        self.error = error
        return isinstance(error, Exception)


class _Answer(Future[Any]):
    """The future of a request; when it is cancelled, the thread of its desk may wait for that."""

    desk: Desk | None = None

    def cancel(self) -> bool:
        is_cancelled = super().cancel()
        if is_cancelled and self.desk is not None:
            self.desk.wake()
        return is_cancelled


class Request:
    """An example, the future of its answer, and until when that is wanted."""

    __slots__ = ("arguments", "arrived", "expires", "future", "number", "seed", "size", "stream")

    def __init__(self, arguments: Any, deadline: float | None, seed: int | None = None, size: int = 1) -> None:
        self.arguments, self.seed, self.size = arguments, seed, size
        self.future = _Answer()
        self.arrived = monotonic()
        self.expires = math.inf if deadline is None else self.arrived + deadline
        self.number = 0  # the desk's
        self.stream: Stream | None = None

    @property
    def waits_for_reader(self) -> bool:
        """Whether its program has yielded more than has been read."""
        return self.stream is not None and self.stream.is_full

    @property
    def given_up(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.is_late or self.future.cancelled()

    @property
    def is_late(self) -> bool:
        """Whether its deadline has passed."""
        return monotonic() >= self.expires

    def answer(self, value: object) -> bool:
        """Gives the value to who waits for it; whether somebody does."""
        return self._settle(self.future.set_result, value)

    def fail(self, error: BaseException) -> bool:
        """Gives the error to who waits for it; whether somebody does."""
        return self._settle(self.future.set_exception, error)

    def _settle(self, put: Callable[[Any], None], content: object) -> bool:
        """Who waits for a future that was cancelled hears of that instead."""
        try:
            put(content)
        except InvalidStateError:
            return self.future.set_running_or_notify_cancel()
        return True

    def give_up(self, who: str) -> bool:
        """Ends a request that is cancelled or late; whether it was late."""
        return self.fail(DeadlineError(f"{who}: the deadline of request {self.number} passed before it was answered."))


class Desk:
    """Where requests wait, first come, first served, and the thread that works on them.

    Args:
        who: whose desk, for messages.
        work: takes requests until there are none; called on the desk's thread.
        queue: how many may wait.
    """

    def __init__(self, who: str, work: Callable[[], None], queue: int) -> None:
        self.who, self.work, self.queue = who, work, queue
        self.condition = threading.Condition()
        self.waiting: deque[Request] = deque()
        self.size = self.under_way = 0  # sizes of what waits, added up; how many are under way
        self._wakes: tuple[int, float] = (1, math.inf)  # how many requests, or what size, the thread sleeps for
        self.numbers = itertools.count()
        self.closed = self.stopping = False
        self.thread: threading.Thread | None = None
        self.counts = dict.fromkeys(("answered", "failed", "cancelled", "late", "refused"), 0)
        _desks.add(self)

    def submit(self, request: Request) -> None:
        """Puts the request behind the others.

        Raises:
            RuntimeError: the desk is closed.
            QueueFullError: too many wait.
        """
        for other in (
            [other for other in list(self.waiting) if other.given_up] if len(self.waiting) >= self.queue else ()
        ):
            self._remove(other)
        with self.condition:
            if self.closed:
                raise RuntimeError(f"{self.who}: it is closed, and takes no new requests. Make another one.")
            if len(self.waiting) >= self.queue:
                self.counts["refused"] += 1
                raise QueueFullError(
                    f"{self.who}: {len(self.waiting)} requests wait, as many as queue={self.queue} lets. Ask again later, or raise queue."
                )
            request.number, request.future.desk = next(self.numbers), self
            self.waiting.append(request)
            self.size += request.size
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name=f"dynograd.{self.who}", daemon=True)
                self.thread.start()
            if self._is_enough():
                self.condition.notify_all()

    def wake(self) -> None:
        """Something that the desk's thread may wait for has changed."""
        with self.condition:
            self.condition.notify_all()

    def _remove(self, request: Request) -> None:
        """Makes room: ends a request that is given up and still waits."""
        with self.condition:
            if request not in self.waiting:
                return
            self.waiting.remove(request)
            self.size -= request.size
            self.under_way += 1
        self.leave(request)

    def _is_enough(self) -> bool:
        many, size = self._wakes
        return len(self.waiting) >= many or self.size >= size

    def collect(self, most: int, size: float, seconds: float) -> None:
        """Sleeps until so many requests wait, or requests of that size, or the first one has waited so long, or the desk is closed."""
        with self.condition:
            if self.waiting:
                self._sleep(most, size, self.waiting[0].arrived + seconds - monotonic())

    def rest(self, most: int, seconds: float) -> None:
        """Sleeps so long, or until so many requests wait, or the desk is closed."""
        with self.condition:
            self._sleep(most, math.inf, seconds)

    def _sleep(self, most: int, size: float, seconds: float) -> None:
        self._wakes = (most, size)
        try:
            self.condition.wait_for(lambda: self.closed or self._is_enough(), max(0.0, seconds))
        finally:
            self._wakes = (1, math.inf)

    def take(self, most: int, size: float = math.inf) -> list[Request]:
        """The next requests, at most so many, and of no larger size together; they are under way from now on."""
        requests: list[Request] = []
        given_up: list[Request] = []
        with self.condition:
            while self.waiting and len(requests) < most and self.waiting[0].size <= size:
                request = self.waiting.popleft()
                self.size -= request.size
                if request.given_up:
                    given_up.append(request)
                else:
                    size -= request.size
                    requests.append(request)
            self.under_way += len(requests) + len(given_up)
        for request in given_up:
            self.leave(request)
        return requests

    def leave(self, request: Request, value: object = None, error: BaseException | None = None) -> None:
        """A request that was under way has its answer or its error, or is given up."""
        self._leave([(request, value, error)])

    def leave_all(self, requests: Sequence[Request], values: Sequence[object]) -> None:
        """Requests that were under way have their answers, or are given up."""
        self._leave([(request, value, None) for request, value in zip(requests, values, strict=True)])

    def _leave(self, answers: list[tuple[Request, object, BaseException | None]]) -> None:
        """Counts them first, so that who has an answer finds it among the counts."""
        expected = [self._expected_end(request, error) for request, _, error in answers]
        with self.condition:
            for how in expected:
                self.counts[how] += 1
        ends = [self._end(*answer) for answer in answers]
        with self.condition:
            for before, how in zip(expected, ends):
                if how != before:  # it was cancelled meanwhile, or its deadline has passed
                    self.counts[before] -= 1
                    self.counts[how] += 1
            self.under_way -= len(ends)
            self.condition.notify_all()

    def _expected_end(self, request: Request, error: BaseException | None) -> str:
        if request.future.cancelled():
            return "cancelled"
        if request.is_late:
            return "late"
        return "answered" if error is None else "failed"

    def _end(self, request: Request, value: object, error: BaseException | None) -> str:
        """Ends a request; how it ended. Its callbacks run, so never under the desk's lock."""
        if request.is_late:
            return "late" if request.give_up(self.who) else "cancelled"
        known = request.answer(value) if error is None else request.fail(error)
        return ("answered" if error is None else "failed") if known else "cancelled"

    def _run(self) -> None:
        while True:
            with self.condition:
                idle_until = monotonic() + _IDLE
                while not self.waiting:
                    left = idle_until - monotonic()
                    if self.closed or left <= 0:
                        self.thread = None
                        self.condition.notify_all()
                        return
                    self.condition.wait(left)
            self.work()

    def close(self, drain: bool = True, timeout: float | None = None) -> bool:
        """Takes no new requests, answers (or cancels) those that it has, and waits for that; whether all are answered."""
        with self.condition:
            self.closed = True
            self.stopping = self.stopping or not drain
            dropped = list(self.waiting) if self.stopping else []
        for request in dropped:
            request.future.cancel()
        with self.condition:
            self.condition.notify_all()
            if self.thread is threading.current_thread():
                return False
            return self.condition.wait_for(lambda: self.thread is None, timeout)


_desks: weakref.WeakSet[Desk] = weakref.WeakSet()


@atexit.register
def _drain() -> None:
    """What was accepted is answered before the process ends."""
    for desk in list(_desks):
        desk.close()


class Stream:
    """The values that a program yields, one after the other, for one reader: in a `for` loop, or in `async for`.

    `future` is done when the program has ended; its result is what the program has returned. An error of the program is raised where the
    values before it have been read. A program waits while 64 of its values have not been read.
    """

    def __init__(self, future: Future[Any]) -> None:
        self.future = future
        self._values: deque[Any] = deque()
        self._changed = threading.Condition()
        self._readers: list[Callable[[], object]] = []
        self.on_read: Callable[[], object] | None = None
        future.add_done_callback(lambda _: self._tell())

    @property
    def is_full(self) -> bool:
        """Whether the program has to wait for the reader."""
        return len(self._values) >= _AHEAD and not self.future.done()

    def put(self, value: object) -> None:
        """The program has yielded a value."""
        self._values.append(value)
        self._tell()

    def _tell(self) -> None:
        with self._changed:
            readers, self._readers = self._readers, []
            self._changed.notify_all()
        for wake in readers:
            wake()

    def _next(self, end: Exception) -> tuple[object, ...]:
        """(the next value,), or () where it is still to come."""
        if self._values:
            return (self._values.popleft(),)
        if not self.future.done():
            return ()
        if self.future.cancelled():
            raise CancelledError("the stream was cancelled")
        raise self.future.exception() or end

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        with self._changed:
            while not (ready := self._next(StopIteration())):
                self._changed.wait()
        return self._read(ready)

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        while True:
            with self._changed:
                ready = self._next(StopAsyncIteration())
                if not ready:
                    loop, more = asyncio.get_running_loop(), asyncio.Event()
                    self._readers.append(functools.partial(loop.call_soon_threadsafe, more.set))
            if ready:
                return self._read(ready)
            await more.wait()

    def _read(self, ready: tuple[object, ...]) -> object:
        if self.on_read is not None and len(self._values) == _AHEAD - 1:  # a program that waited may go on
            self.on_read()
        return ready[0]

    def cancel(self) -> bool:
        """Stops the program at its next decision. Returns whether it had not ended before."""
        return self.future.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
