"""When a run is saved: after so many steps, or when enough time has passed, within a budget of time and of bytes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["Schedule"]

_WITHIN_EPOCHS = 60.0  # seconds after which a run is saved between the ends of epochs, where the program does not say


class Schedule:
    """The times at which a run is saved.

    Args:
        every, seconds, share, rate: `save_every`, `save_seconds`, `save_share` and `save_rate` of `Run`.
        keeps_several: each epoch gets a file of its own.
    """

    def __init__(
        self, every: int | None, seconds: float | None, share: float | None, rate: float | None, keeps_several: bool
    ) -> None:
        _check(every, seconds, share, rate)
        self.every, self.seconds, self.share, self.rate = every, seconds, share, rate
        self.keeps_several = keeps_several
        self._saved_at, self._took = time.monotonic(), 0.0
        self._bytes: int | None = None  # of a save

    def is_due(self, step: int, epoch_is_over: bool, size: Callable[[], int]) -> bool:
        """Whether a run is saved behind step `step`; `size` reckons the bytes of the first save."""
        if self.every is not None and not epoch_is_over and step % self.every == 0:
            return True
        if self.seconds is not None:
            interval = self.seconds
        elif self.every is not None:
            return False
        elif self.keeps_several:
            return epoch_is_over
        else:
            interval = 0.0 if epoch_is_over else _WITHIN_EPOCHS
        passed = time.monotonic() - self._saved_at
        return passed >= interval and passed >= self._affordable(size)

    def _affordable(self, size: Callable[[], int]) -> float:
        """The seconds between two saves that keep to the budget."""
        if self.rate is not None and self._bytes is None:
            self._bytes = size()
        return max(
            0.0 if self.share is None else self._took / self.share,
            0.0 if self.rate is None or self._bytes is None else self._bytes / self.rate,
        )

    def note(self, began: float, count: int) -> None:
        """The run has been saved: it took the time since `began`, and `count` bytes."""
        self._saved_at = time.monotonic()
        self._took, self._bytes = self._saved_at - began, count


def _check(every: Any, seconds: Any, share: Any, rate: Any) -> None:
    if every is not None and (not isinstance(every, int) or every < 1):
        raise ValueError(f"Run: expected save_every >= 1, got {every!r}.")
    if seconds is not None and not seconds >= 0:
        raise ValueError(f"Run: expected save_seconds >= 0, got {seconds!r}.")
    if share is not None and not 0 < share <= 1:
        raise ValueError(
            f"Run: expected save_share in (0, 1], got {share!r}. 0.02 is 2 % of the time; None is no limit."
        )
    if rate is not None and not rate > 0:
        raise ValueError(
            f"Run: expected save_rate > 0, in bytes a second, got {rate!r}. 10e6 is 10 MB; None is no limit."
        )
