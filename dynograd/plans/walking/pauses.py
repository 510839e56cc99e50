"""When recording pauses: where call after call goes a way of its own, records cost more than walks along them can save."""

from __future__ import annotations

from typing import Any

__all__ = ["Pauses"]

_PATIENCE = 16  # calls that went ways of their own
_LENGTH = 2047  # calls of a pause: a record takes as long as 50 of them, and what goes on costs 3 % at most


class Pauses:
    """Of one function: whether its calls are recorded, or run as they are written.

    Attributes:
        left: so many calls run as they are written from now on.
    """

    def __init__(self) -> None:
        self.left = self._length = 0
        self._missed = self._changes = 0

    def go_on(self) -> bool:
        """Whether pauses alternate with records: hardly a call goes along one."""
        return self._missed > _PATIENCE

    def forget_missed(self) -> None:
        """What was missed so far says nothing of records from now on."""
        self._missed = self._length = 0

    def learn(self, walked: bool, is_first: bool, families: Any) -> None:
        """A call went along the record, or a way of its own.

        Args:
            is_first: nothing was recorded at these sizes: formulas for all of them may follow from a few more.
            families: of the function; a new one stands for sizes that were missed before.
        """
        if walked:
            self._missed, self._length = max(self._missed - 1, 0), self._length // 2
            return
        if self._changes != families.changes <= _PATIENCE:
            self._changes = families.changes
            self.forget_missed()
        self._missed = min(self._missed, _PATIENCE) + 1
        if self.go_on():
            self.left = self._length = min(2 * self._length + 1, _LENGTH) if is_first else _LENGTH
