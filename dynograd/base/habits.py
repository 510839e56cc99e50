"""Habits: at which places of a program the next calls are left as they are written, since the ones before gained nothing there.

They decide last bits, so the seed of the random numbers begins them anew, and a run saves them: what a program computes does not depend on what ran
before it in the same process, nor on whether it was interrupted.
"""

from __future__ import annotations

import os
from types import CodeType
from typing import Any

__all__ = ["Habits", "forget_habits", "put_habits", "saved_habits"]

_MOST_PLACES = 1000
_kinds: dict[str, Habits] = {}


class Habits:
    """Of one kind of calls. A place is the code objects that it is in, and a line.

    Args:
        kind: the name under which they are saved.
        longest: calls that are left, one after the other, at most.
        grace: behind a call that gained something one that did not leaves none: it may be the small rest of an epoch.
    """

    def __init__(self, kind: str, longest: int, grace: bool) -> None:
        self.longest, self.grace = longest, grace
        # By place: how many of the next calls are left, how many were the last time (-1: the last one gained something), up to how many
        # examples, and the place, whose code it keeps.
        self._entries: dict[tuple[int, ...], tuple[int, int, int, tuple[Any, ...]]] = {}
        self._saved: dict[tuple[Any, ...], tuple[int, int, int]] = {}  # of places that did not come yet, by name
        _kinds[kind] = self

    def leaves(self, place: tuple[Any, ...], examples: int = 0) -> bool:
        """Whether this call is left as it is written; so are others behind it, which count."""
        if not self._entries and not self._saved:
            return False
        key = _key_of(place)
        entry = self._entries.get(key) or self._found(key, place)
        if entry is None:
            return False
        left, times, most, _ = entry
        if not left or examples > most:
            return False
        self._entries[key] = left - 1, times, most, place
        return True

    def learn(self, place: tuple[Any, ...], gained: bool, examples: int = 0) -> None:
        """A call was not left: whether that gained something. Where it did not, one, three, seven, ... of the next are."""
        key = _key_of(place)
        if gained:
            self._entries.pop(key, None)
            if self.grace:
                self._put(key, (0, -1, examples, place))
            return
        entry = self._entries.get(key) or self._found(key, place)
        before = 0 if entry is None else entry[1]
        times = min(2 * before + 1, self.longest) if before >= 0 else 0
        self._put(key, (times, times, examples, place))

    def _put(self, key: tuple[int, ...], entry: tuple[int, int, int, tuple[Any, ...]]) -> None:
        if len(self._entries) > _MOST_PLACES:
            self._entries.clear()
        self._entries[key] = entry

    def _found(self, key: tuple[int, ...], place: tuple[Any, ...]) -> tuple[int, int, int, tuple[Any, ...]] | None:
        """What a run has saved of a place that comes for the first time since."""
        saved = self._saved.pop(_name_of(place), None) if self._saved else None
        if saved is None:
            return None
        entry = self._entries[key] = (*saved, place)
        return entry

    def forget(self) -> None:
        self._entries.clear()
        self._saved.clear()

    def listed(self) -> list[list[Any]]:
        known = {_name_of(place): [left, times, most] for left, times, most, place in [*self._entries.values()]}
        known |= {name: [*numbers] for name, numbers in self._saved.items() if name not in known}
        return [[[*name], *numbers] for name, numbers in known.items()]

    def put(self, listed: list[list[Any]]) -> None:
        self.forget()
        self._saved = {tuple(name): (int(left), int(times), int(most)) for name, left, times, most in listed}


def forget_habits() -> None:
    """All begin anew."""
    for habits in _kinds.values():
        habits.forget()


def saved_habits() -> dict[str, list[list[Any]]]:
    """What `put_habits` needs, as plain data."""
    return {kind: listed for kind, habits in _kinds.items() if (listed := habits.listed())}


def put_habits(saved: dict[str, list[list[Any]]]) -> None:
    """Goes on where `saved_habits` was asked."""
    for kind, habits in _kinds.items():
        habits.put(saved.get(kind, []))


def _key_of(place: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple([part if type(part) is int else id(part) for part in place])  # to hash code takes a microsecond


def _name_of(place: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([_name_of_part(part) for part in place])


def _name_of_part(part: Any) -> object:
    if isinstance(part, CodeType):
        return f"{os.path.basename(part.co_filename)}:{part.co_firstlineno} {part.co_qualname}"
    return part if part is None or isinstance(part, int) else part.__qualname__
