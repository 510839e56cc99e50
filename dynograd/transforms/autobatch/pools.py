"""`batched(function, running=True)`: a pool into which examples come one by one, while others are under way.

A thread of the pool gives all examples under way a turn each: from one decision to the next. Then all that they have recorded runs in groups, and
new examples join those that go on. So memory does not grow with the number of answers, and an example waits for no other one's end.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from time import monotonic
from types import TracebackType
from typing import Any, Self

from dynograd.autograd.modes import MODES
from dynograd.base.random_streams import apart, default_generator
from dynograd.errors import DynogradError
from dynograd.transforms.autobatch.carriers import copied, put, states_of_thread
from dynograd.transforms.autobatch.record.pending import Row, settle
from dynograd.transforms.autobatch.record.recorder import outside
from dynograd.transforms.autobatch.requests import Attempt, Desk, Request, Stream, positive
from dynograd.transforms.autobatch.scope import autobatch
from dynograd.transforms.autobatch.turns import Run, Task, mixed
from dynograd.transforms.trees import map_tree

__all__ = ["Pool"]


class Pool:
    """Runs `function(example)` for examples that are submitted one by one, all that are under way together.

    Made by `batched(function, running=True)`. Programs run on a thread of the pool, with the modes (batch-invariant, autocast, inference) and
    context variables that held where the pool was made, and without gradients unless they switch them on. Each has random numbers of its
    own, by its seed. Tensors in the answer (in tuples, lists and dicts) are computed, and have memory of their own.

    A program can be stopped where it waits for a value or yields; a loop that does neither goes on to its end, and the others wait for it.

    >>> def halvings(x):
    ...     while x > 1:
    ...         x = x / 2
    ...         yield x.item()
    >>> with dynograd.batched(halvings, running=True) as pool:
    ...     list(pool.stream(tensor(5.0)))
    [2.5, 1.25, 0.625]
    """

    def __init__(self, function: Callable[..., Any], concurrent: int = 512, queue: int = 4096) -> None:
        positive("batched", "queue", queue, int)
        self.function, self.concurrent = function, concurrent
        self.desk = Desk("batched", self._work, queue)
        self.is_stream = inspect.isgeneratorfunction(inspect.unwrap(function))
        self.calls = self.groups = self.turns = 0
        self._states = states_without_gradients()
        self._context = contextvars.copy_context()
        self._seed, _ = default_generator.key(1)

    def submit(self, example: Any, *, deadline: float | None = None, seed: int | None = None) -> Future[Any]:
        """Begins an example at the next turn, or as soon as others make room.

        Args:
            example: what the function is called with.
            deadline: seconds from now after which the answer is not wanted any more; then the example is stopped.
            seed: of its random numbers; by default they are those of the pool's seed and the example's number.
        Returns:
            A `concurrent.futures.Future`, of a generator of its return value; `cancel()` stops the example, `asyncio.wrap_future` awaits it.
        Raises:
            QueueFullError: as many examples wait as may.
            RuntimeError: the pool is closed.
        """
        return self._submit(example, deadline, seed).future

    def stream(self, example: Any, *, deadline: float | None = None, seed: int | None = None) -> Stream:
        """Begins an example whose function is a generator, and hands on what it yields as it comes.

        Args:
            example: what the function is called with.
            deadline: seconds from now until the last value.
            seed: of its random numbers.
        Returns:
            An iterator, also an asynchronous one, with `cancel()` and the `future` of the return value.
        Raises:
            TypeError: the function is no generator.
            QueueFullError: as many examples wait as may.
            RuntimeError: the pool is closed.
        """
        if not self.is_stream:
            raise TypeError(
                f"batched: stream() wants a function that yields, and {getattr(self.function, '__name__', self.function)} does not. "
                "Use submit(), or write `yield` in it."
            )
        stream = self._submit(example, deadline, seed, streams=True).stream
        assert stream is not None
        return stream

    def map(self, examples: Iterable[Any], *, deadline: float | None = None) -> Iterator[Any]:
        """The answers, in the order of the examples; as many are submitted ahead as the queue lets.

        Args:
            examples: any iterable.
            deadline: seconds for each, from when it is submitted.
        Yields:
            An answer for each example; the error of the first one that has failed is raised.
        """
        ahead: deque[Future[Any]] = deque()
        try:
            for example in examples:
                while len(ahead) >= self.desk.queue:
                    yield ahead.popleft().result()
                ahead.append(self.submit(example, deadline=deadline))
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()

    def close(self, drain: bool = True, timeout: float | None = None) -> bool:
        """Takes no new examples, and waits until those that were accepted are answered.

        Args:
            drain: False: cancel them; those under way stop at their next decision.
            timeout: seconds to wait at most.
        Returns:
            Whether nothing is left. At the end of the process pools that are still open are closed.
        """
        return self.desk.close(drain, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=error is None)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.desk.counts.items() if count)
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"Pool({name}: {self.desk.under_way} under way, {len(self.desk.waiting)} waiting{', ' + counts if counts else ''})"

    # --- on the pool's thread ----------------------------------------------------------------------------------------------------

    def _submit(self, example: Any, deadline: float | None, seed: int | None, streams: bool = False) -> Request:
        positive("batched", "deadline", deadline)
        request = Request(example, deadline, seed)
        if streams:
            request.stream = Stream(request.future)
            request.stream.on_read = self.desk.wake
        self.desk.submit(request)
        return request

    def _work(self) -> None:
        """Answers until nothing waits and nothing is under way; a failure of groups is the error of all examples that are under way."""
        self._context.copy().run(self._answer_all)

    def _answer_all(self) -> None:
        put(states_of_thread(), copied(self._states))
        with apart((self._seed, 0)):
            self._turns()

    def _turns(self) -> None:
        under_way: dict[Task, Request] = {}
        attempt = Attempt()
        with attempt, autobatch(always=True):
            run = Run(self._answer, [], self.concurrent)
            try:
                while self._turn(run, under_way):
                    pass
            except BaseException:
                run.stopping = run.unwinding = True
                run.carrier.stop([task for task in under_way if not task.finished])
                raise
        for request in under_way.values():
            self.desk.leave(request, error=attempt.error)

    def _turn(self, run: Run, under_way: dict[Task, Request]) -> bool:
        """Each example goes on to its next decision; then what they have recorded runs. Whether any is left."""
        fresh = [self._begin(run, request) for request in self.desk.take(self.concurrent - len(under_way))]
        under_way.update(fresh)
        if not under_way:
            return False
        for task, request in under_way.items():
            task.stopped = task.carried is not None and (self.desk.stopping or request.given_up)
        ready = [task for task, request in under_way.items() if task.stopped or not request.waits_for_reader]
        if not ready:
            self._wait_for_readers(under_way)
            return True
        self.turns += 1
        run.turn(ready)
        for task in [task for task in ready if task.finished]:
            request = under_way.pop(task)
            if task.stopped and not request.given_up:
                request.future.cancel()
            self.desk.leave(request, task.result, task.error)
        recorder = run.recorder
        recorder.flush(None, "the end of a turn")
        self._forget(recorder)
        return True

    def _wait_for_readers(self, under_way: dict[Task, Request]) -> None:
        """All programs under way have yielded more than has been read: waits for a reader, a new example, or the end of a request."""
        desk, requests = self.desk, list(under_way.values())
        nearest = min([request.expires for request in requests])
        with desk.condition:
            desk.condition.wait_for(
                lambda: (
                    desk.stopping
                    or (desk.waiting and len(requests) < self.concurrent)
                    or any([request.given_up or not request.waits_for_reader for request in requests])
                ),
                None if nearest == math.inf else max(0.0, nearest - monotonic()),
            )

    def _begin(self, run: Run, request: Request) -> tuple[Task, Request]:
        seed = mixed(self._seed, 0, request.number) if request.seed is None else request.seed
        return Task(run, request.number, request, (seed, 0)), request

    def _forget(self, recorder: Any) -> None:
        """What the record keeps for reports at the end of a scope, and this one may last for ever."""
        self.calls += recorder.report.calls
        self.groups += recorder.report.launches
        recorder.report.order.clear()
        recorder.failed.clear()  # each is the error of the example that reads the value
        recorder.views.clear()
        recorder.forget()

    # --- in an example's own stack ------------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> object:
        """Runs the function; its answer, computed."""
        try:
            answer = self.function(request.arguments)
            if self.is_stream:
                with contextlib.closing(answer):
                    answer = _returned(answer, request)
            return map_tree(_own, answer)
        except (SystemExit, KeyboardInterrupt) as error:
            raise DynogradError(
                f"batched: the function ended the program ({type(error).__name__}) in request {request.number}."
            ) from error


def states_without_gradients() -> list[dict[str, Any]]:
    """The modes of the calling thread for a thread that answers requests: nothing is recorded there."""
    states = copied(states_of_thread())
    states[0].update(
        grad=0, recorder=None, plan=None, sequences=None, closures=None, running=None, task=None, watchers=()
    )
    return states


def _returned(values: Generator[Any, None, Any], request: Request) -> object:
    """Hands on what a generator yields, and waits while its reader is behind; what it returns."""
    while True:
        try:
            value = next(values)
        except StopIteration as end:
            return end.value
        value = map_tree(_own, value)
        if request.stream is not None:
            request.stream.put(value)
        if request.given_up or request.waits_for_reader:
            MODES.recorder.task.park(())


def _own(leaf: object) -> object:
    """A tensor with its value, in memory of its own: not in that of all rows of its group."""
    leaf = settle(leaf)
    if type(leaf) is not Row:
        return leaf
    with outside():
        return leaf.detach().clone()
