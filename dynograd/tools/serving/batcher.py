"""Rows of different lengths, collected within a time budget and answered as one ragged batch."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from types import TracebackType
from typing import Any, Self

from dynograd.base.random_streams import apart, default_generator
from dynograd.errors import ShapeError
from dynograd.ragged import RaggedTensor, ragged_tensor
from dynograd.tensor.creation import as_tensor
from dynograd.tensor.tensor import Tensor
from dynograd.transforms.autobatch.carriers import copied, put, states_of_thread
from dynograd.transforms.autobatch.pools import states_without_gradients
from dynograd.transforms.autobatch.requests import Attempt, Desk, Request, positive

__all__ = ["Batcher"]


class Batcher:
    """Answers rows by calling `function` on ragged batches of them, on a thread of its own.

    A batch is closed when it has `max_rows` rows or `max_tokens` tokens, or when its first row has waited for `max_wait` seconds. While one is
    computed the next one is collected. If a batch fails, its rows are tried one by one, so that a bad row fails alone. The function runs
    with the modes that held where the batcher was made, without gradients.

    Args:
        function: from a ragged tensor (B, j, ...) to a tensor (B, ...), a ragged tensor or a list with an answer for each row.
        max_tokens: the most tokens (lengths of rows, added up) in a batch.
        max_rows: the most rows in a batch.
        max_wait: seconds that a row may wait for others.
        queue: how many rows may wait; more are refused.
    Raises:
        ValueError: a limit is no positive number.

    >>> with dynograd.serving.Batcher(lambda rows: rows.sum(1), max_wait=0.001) as batcher:
    ...     futures = [batcher.submit(row) for row in ([1.0, 2.0], [3.0], [4.0, 5.0, 6.0])]
    >>> [future.result().item() for future in futures]
    [3.0, 3.0, 15.0]
    """

    def __init__(
        self,
        function: Callable[[RaggedTensor], Any],
        *,
        max_tokens: int = 8192,
        max_rows: int = 64,
        max_wait: float = 0.002,
        queue: int = 1024,
    ) -> None:
        if not callable(function):
            raise TypeError(f"Batcher: expected a function of a ragged batch, got {type(function).__name__}.")
        for name, value in (("max_tokens", max_tokens), ("max_rows", max_rows), ("queue", queue)):
            positive("Batcher", name, value, int)
        positive("Batcher", "max_wait", max_wait)
        self.function, self.max_tokens, self.max_rows, self.max_wait = function, max_tokens, max_rows, max_wait
        self.desk = Desk("Batcher", self._work, queue)
        self.batches = self.rows = 0
        self._states = states_without_gradients()
        self._context = contextvars.copy_context()
        self._seed, _ = default_generator.key(1)

    def submit(self, row: Any, *, deadline: float | None = None) -> Future[Any]:
        """Puts a row into the next batch that has room for it.

        Args:
            row (T, ...): a tensor, an array or nested lists.
            deadline: seconds from now after which the answer is not wanted any more.
        Returns:
            A `concurrent.futures.Future`; `cancel()` takes the row back, `asyncio.wrap_future` awaits the answer.
        Raises:
            ShapeError: the row has no dimension, or more than `max_tokens` tokens.
            QueueFullError: as many rows wait as may.
            RuntimeError: the batcher is closed.
        """
        positive("Batcher", "deadline", deadline)
        tensor = as_tensor(row).detach()
        if tensor.ndim == 0:
            raise ShapeError(
                f"Batcher: expected a row (T, ...), got a single number {tensor.item()}. Wrap it in a list."
            )
        if len(tensor) > self.max_tokens:
            raise ShapeError(
                f"Batcher: the row has {len(tensor)} tokens, but a batch at most max_tokens={self.max_tokens}. "
                "Shorten it, or raise max_tokens."
            )
        request = Request(tensor, deadline, size=len(tensor))
        self.desk.submit(request)
        return request.future

    def close(self, drain: bool = True, timeout: float | None = None) -> bool:
        """Takes no new rows, and waits until those that were accepted are answered.

        Args:
            drain: False: cancel those that wait.
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
            while self._collect():
                requests = self.desk.take(self.max_rows, self.max_tokens)
                if requests:
                    self._answer(requests)

    def _collect(self) -> bool:
        """Waits until the next batch is full, or its first row has waited long enough; False: no row waits."""
        desk = self.desk
        with desk.condition:
            if not desk.waiting:
                return False
            desk.condition.wait_for(
                lambda: (
                    desk.closed
                    or len(desk.waiting) >= self.max_rows
                    or sum([request.size for request in desk.waiting]) >= self.max_tokens
                ),
                max(0.0, desk.waiting[0].arrived + self.max_wait - monotonic()),
            )
            return True

    def _answer(self, requests: list[Request]) -> None:
        attempt = Attempt()
        with attempt:
            answers = self._answers(requests)
        self.batches += 1
        self.rows += len(requests)
        if attempt.error is None:
            for request, answer in zip(requests, answers, strict=True):
                self.desk.leave(request, answer)
        elif len(requests) == 1:
            self.desk.leave(requests[0], error=attempt.error)
        else:
            for request in requests:
                self._answer([request])

    def _answers(self, requests: list[Request]) -> list[object]:
        answers = self.function(ragged_tensor([request.arguments for request in requests]))
        if isinstance(answers, RaggedTensor):
            answers = list(answers.unbind())
        elif isinstance(answers, Tensor):
            answers = list(answers) if answers.ndim else answers
        if not isinstance(answers, list) or len(answers) != len(requests):
            size = f"{len(answers)} answers" if isinstance(answers, list) else type(answers).__name__
            raise ShapeError(
                f"Batcher: the function got {len(requests)} rows and returned {size}. "
                "Return a tensor (B, ...), a ragged tensor or a list with an answer for each row."
            )
        return [answer.clone() if isinstance(answer, Tensor) else answer for answer in answers]
