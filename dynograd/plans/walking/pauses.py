"""When recording waits, and pauses: where call after call goes a way of its own, records cost more than walks along them can save.

To see which way a call goes takes some 7 times as long as the call, and to make a program of it 50 times. So after a few ways that came once, one is made into
a program when it comes again; and beyond the first ones so many are made as calls along records have paid for.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["NO_CREDIT", "Credit", "Pauses", "Rhythm", "way_of"]

_PATIENCE = 16  # calls that went ways of their own
_FEW = 4  # of those, after which a way has to come twice
_COST = 10  # calls along records that make up for one that went a way of its own
_MOST_OWED = 40 * _COST  # a program of 32 ways has them all by then
_MOST_SEEN = 256  # ways that came once and are remembered
_HASHED = (int, float, bool, str, type(None))
_MOST_IN_VAIN = 8  # calls recorded from their beginnings that went a way that was known
NO_CREDIT = "no more is recorded until calls along the record have paid for what was"
_GIVEN = 500.0  # calls: some ten programs
_EARNED, _EARNED_AS_WRITTEN = 1.0, 0.1  # by a call along a record, and by another one
_LENGTH = 2047  # calls of a pause: a record takes as long as 50 of them, and what goes on costs 3 % at most


class Pauses:
    """Of one function: whether its calls are recorded, or run as they are written.

    Attributes:
        left: so many calls run as they are written from now on.
    """

    def __init__(self) -> None:
        self.left = self._length = 0
        self._missed = self._changes = 0
        self._owed = 0  # calls that have to go along records until these have paid
        self._seen: dict[int, int] = {}  # how often ways came that are not recorded, by `way_of`
        self._comes_again = False

    def go_on(self) -> bool:
        """Whether pauses alternate with records: hardly a call goes along one."""
        return self._missed > _PATIENCE or self._owed > _MOST_OWED

    def forget_missed(self) -> None:
        """What was missed so far says nothing of records from now on."""
        self._missed = self._length = self._owed = 0

    def waits(self, way: int) -> bool:
        """Whether a way that is not recorded yet has to come again first."""
        if not _FEW < self._missed <= _PATIENCE:
            return False
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        times = self._seen[way] = self._seen.get(way, 0) + 1
        self._comes_again = times == 2  # more often: tensors are others each time
        return times < 2

    def learn(self, walked: bool, is_first: bool, families: Any) -> None:
        """A call went along the record, or a way of its own.

        Args:
            is_first: nothing was recorded at these sizes: formulas for all of them may follow from a few more.
            families: of the function; a new one stands for sizes that were missed before.
        """
        comes_again, self._comes_again = self._comes_again, False
        if walked or comes_again:
            self._missed, self._length = max(self._missed - 1, 0), self._length // 2
            self._owed = max(self._owed - 1, 0)
            return
        if self._changes != families.changes <= _PATIENCE:
            self._changes = families.changes
            self.forget_missed()
        self._missed, self._owed = min(self._missed, _PATIENCE) + 1, min(self._owed, _MOST_OWED) + _COST
        if self.go_on():
            self.left = self._length = min(2 * self._length + 1, _LENGTH) if is_first else _LENGTH


class Credit:
    """Of one function: what may be spent on its records, in calls of the function as it is written.

    A program costs as much as some 50 calls, and a call along it saves a part of one: where ways, or sizes, hardly come again, or the function is called a few
    dozen times, most programs are never paid for. So ten or so are made at once, and others as calls go along those there are.

    Args:
        has_limit: whether it may run out.
    """

    def __init__(self, has_limit: bool) -> None:
        self._left = self._most = _GIVEN if has_limit else math.inf

    def has_any(self) -> bool:
        return self._left > 0

    def earn(self, walked: bool) -> None:
        """The function was called, and went along a record or not."""
        self._left = min(self._left + (_EARNED if walked else _EARNED_AS_WRITTEN), self._most)

    def spend(self, calls: float) -> None:
        self._left -= calls


class Rhythm:
    """Of one function: which calls go, or are recorded, along ways of their own from the beginning.

    Where a call leaves the record behind the step of an optimizer, or a write, what came before cannot be computed again for another way. Programs do
    that in turns, as they gather gradients over four calls: the call that comes as far behind the latest of these as that came behind the one before is
    due. It is recorded from its beginning, as a way apart; once there is one it goes along that.
    """

    def __init__(self) -> None:
        self._latest = self._due = self._in_vain = 0
        self.has_missed = False  # the latest call that was due left the way apart

    def is_due(self, call: int) -> bool:
        return call == self._due

    def note_left(self, call: int) -> None:
        """The call with this number has left the record there."""
        self.has_missed = call == self._due
        if self._latest and self._in_vain < _MOST_IN_VAIN:
            self._due = 2 * call - self._latest
        self._latest = call

    def note_walked(self, call: int) -> None:
        """The call has gone along a way apart."""
        self._in_vain = 0
        self._latest, self._due = call, 2 * call - self._latest

    def note_recorded(self, call: int, is_new: bool) -> None:
        """The call was recorded from its beginning. Where it went a way that is known, the next is due when a call has left the record again."""
        self._in_vain, self.has_missed = self._in_vain + 1, False
        if is_new:
            self._latest, self._due = call, 2 * call - self._latest


def way_of(events: Any, sizes: Any) -> int:
    """A number for the way that a call has gone. Where two ways have the same one, the second is recorded when it first comes."""
    steps = [(event.kind, event.entry and event.entry.key, event.grad, _outline(event.args)) for event in events]
    return hash((sizes, *steps))


def _outline(value: Any) -> object:
    """What can be hashed of described operands; of objects only the class."""
    if type(value) in (tuple, list):
        return tuple([_outline(element) for element in value])
    return value if type(value) in _HASHED else type(value)
