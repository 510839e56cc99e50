"""What answers requests on a thread of its own: what a `Batcher` and a `Caller` have in common."""

from __future__ import annotations

import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from dynograd.base.random_streams import apart, default_generator
from dynograd.transforms.autobatch.carriers import copied, put, states_of_thread
from dynograd.transforms.autobatch.pools import states_without_gradients
from dynograd.transforms.autobatch.requests import Attempt, Desk, Request, positive

__all__ = ["Caller", "Engine"]


class Engine(ABC):
    """A queue, and a thread that answers what is in it, with the modes that held where the engine was made, without gradients.

    Args:
        function: what answers.
        queue: how many requests may wait.
    """

    def __init__(self, function: Callable[[Any], Any], queue: int) -> None:
        who = type(self).__name__
        if not callable(function):
            raise TypeError(f"{who}: expected a function, got {type(function).__name__}.")
        positive(who, "queue", queue, int)
        self.function = function
        self.desk = Desk(who, self._work, queue)
        self.batches = self.rows = 0
        self._states = states_without_gradients()
        self._context = contextvars.copy_context()
        self._seed, _ = default_generator.key(1)

    @abstractmethod
    def _request(self, example: Any, deadline: float | None) -> Request:
        """A request for an example, which is checked."""

    @abstractmethod
    def _next(self) -> list[Request] | None:
        """The requests that are answered next, together; None: nothing waits."""

    @abstractmethod
    def _answers(self, requests: list[Request]) -> list[object]:
        """An answer for each."""

    def submit(self, example: Any, *, deadline: float | None = None) -> Future[Any]:
        """Puts an example into the queue.

        Args:
            example: what the function gets; of a `Batcher` a row (T, ...): a tensor, an array or nested lists.
            deadline: seconds from now after which the answer is not wanted any more.
        Returns:
            A `concurrent.futures.Future`; `cancel()` takes the example back, `asyncio.wrap_future` awaits the answer.
        Raises:
            ShapeError: a row has no dimension, or more than `max_tokens` tokens.
            QueueFullError: as many wait as may.
            RuntimeError: it is closed.
        """
        positive(type(self).__name__, "deadline", deadline)
        request = self._request(example, deadline)
        self.desk.submit(request)
        return request.future

    def close(self, drain: bool = True, timeout: float | None = None) -> bool:
        """Takes nothing new, and waits until what was accepted is answered.

        Args:
            drain: False: cancel what waits.
            timeout: seconds to wait at most.
        Returns:
            Whether nothing is left.
        """
        return self.desk.close(drain, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=error is None)

    def _work(self) -> None:
        self._context.copy().run(self._answer_all)

    def _answer_all(self) -> None:
        put(states_of_thread(), copied(self._states))
        with apart((self._seed, 0)):
            while (requests := self._next()) is not None:
                if requests:
                    self._answer(requests)

    def _answer(self, requests: list[Request]) -> None:
        attempt = Attempt()
        with attempt:
            answers = self._answers(requests)
        self.batches += 1
        self.rows += len(requests)
        if attempt.error is None:
            self.desk.leave_all(requests, answers)
        elif len(requests) == 1:
            self.desk.leave(requests[0], error=attempt.error)
        else:
            for request in requests:
                self._answer([request])


class Caller(Engine):
    """Answers examples by calling `function` on one after the other, on a thread of its own, without gradients.

    For functions that compute on whole tensors and gain nothing by company: a request brings its own batch.

    Args:
        function: of an example.
        queue: how many examples may wait; more are refused.
    Raises:
        ValueError: a limit is no positive number.

    >>> with dynograd.serving.Caller(lambda x: x.sum()) as caller:
    ...     caller.submit(dynograd.ones(2, 3)).result()
    tensor(6.)
    """

    def __init__(self, function: Callable[[Any], Any], *, queue: int = 1024) -> None:
        super().__init__(function, queue)

    def _request(self, example: Any, deadline: float | None) -> Request:
        return Request(example, deadline)

    def _next(self) -> list[Request] | None:
        return self.desk.take(1) if self.desk.waiting else None

    def _answers(self, requests: list[Request]) -> list[object]:
        return [self.function(request.arguments) for request in requests]
