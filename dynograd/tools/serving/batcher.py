"""Rows of different lengths, collected within a time budget and answered as one ragged batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.errors import ShapeError
from dynograd.ragged import RaggedTensor, ragged_tensor
from dynograd.tensor.creation import as_tensor
from dynograd.tensor.tensor import Tensor
from dynograd.tools.serving.engines import Engine
from dynograd.transforms.autobatch.requests import Request, positive

__all__ = ["Batcher"]

# Seconds after a batch in which its answers are written, and what came meanwhile is read: without them the next batch is a smaller one, and both threads
# run at once, of which one has Python's lock. At half load (docs/benchmarks.md, Serving) a request takes 0.93 times the processor time, and its median
# time is 0.89 times as long.
_REST = 3e-4


class Batcher(Engine):
    """Answers rows by calling `function` on ragged batches of them, on a thread of its own.

    A batch is closed when it has `max_rows` rows or `max_tokens` tokens, or when its first row has waited for `max_wait` seconds. While one is
    computed the next one is collected; it begins 0.3 ms later (at most `max_wait`), unless a quarter of `max_rows` wait.
    If a batch fails, its rows are tried one by one, so that a bad row fails alone. The function runs with the modes that held where the batcher
    was made, without gradients.

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
        for name, value in (("max_tokens", max_tokens), ("max_rows", max_rows)):
            positive("Batcher", name, value, int)
        positive("Batcher", "max_wait", max_wait)
        super().__init__(function, queue)
        self.max_tokens, self.max_rows, self.max_wait = max_tokens, max_rows, max_wait

    def _request(self, example: Any, deadline: float | None) -> Request:
        tensor = (example if isinstance(example, Tensor) else as_tensor(example)).detach()
        if tensor.ndim == 0:
            raise ShapeError(
                f"Batcher: expected a row (T, ...), got a single number {tensor.item()}. Wrap it in a list."
            )
        if len(tensor) > self.max_tokens:
            raise ShapeError(
                f"Batcher: the row has {len(tensor)} tokens, but a batch at most max_tokens={self.max_tokens}. "
                "Shorten it, or raise max_tokens."
            )
        return Request(tensor, deadline, size=len(tensor))

    def _next(self) -> list[Request] | None:
        """Waits until the next batch is full, or its first row has waited long enough."""
        self.desk.collect(self.max_rows, self.max_tokens, self.max_wait)
        return self.desk.take(self.max_rows, self.max_tokens) if self.desk.waiting else None

    def _answer(self, requests: list[Request]) -> None:
        super()._answer(requests)
        self.desk.rest(-(-self.max_rows // 4), min(_REST, self.max_wait))

    def _answers(self, requests: list[Request]) -> list[object]:
        answers = self.function(ragged_tensor([request.arguments for request in requests]))
        are_numbers = isinstance(answers, Tensor) and answers.ndim == 1
        if isinstance(answers, RaggedTensor):
            answers = list(answers.unbind())
        elif are_numbers:
            answers = list(answers.clone())  # one copy for all
        elif isinstance(answers, Tensor):
            answers = list(answers) if answers.ndim else answers
        if not isinstance(answers, list) or len(answers) != len(requests):
            size = f"{len(answers)} answers" if isinstance(answers, list) else type(answers).__name__
            raise ShapeError(
                f"Batcher: the function got {len(requests)} rows and returned {size}. "
                "Return a tensor (B, ...), a ragged tensor or a list with an answer for each row."
            )
        if are_numbers:
            return answers
        return [answer.clone() if isinstance(answer, Tensor) else answer for answer in answers]
