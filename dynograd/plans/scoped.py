"""Steps with scopes of `autobatch`: they run as they are written, and what their scopes have in common is kept from call to call."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import line_text
from dynograd.plans.watches import Watch
from dynograd.transforms.autobatch.record.sequences import Sequences

__all__ = ["Scopes"]

_MOST_PLACES = 64  # scopes of one function; more are those of code that is made anew again and again
REASON = "a scope of autobatch, whose ops run in groups"


class Scopes:
    """Of a compiled function: its scopes, and the sequences of ops in them."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.by_place: dict[Any, tuple[Any, Sequences]] = {}  # by where a scope begins: its code, and its sequences
        self.calls = 0  # with a scope
        self.latest = False  # whether the latest call had one

    def begin(self, code: Any, at: int) -> Sequences | None:
        """A scope begins there: what its recorder goes by; nothing in exact mode, where other groups might give other bits."""
        self.latest = True
        if self.exact:
            return None
        place = id(code), at  # to hash code takes a microsecond
        known = self.by_place.get(place)
        if known is None:
            if len(self.by_place) == _MOST_PLACES:
                self.by_place.clear()
            known = self.by_place[place] = code, Sequences(Watch)
        return known[1]

    def listed(self) -> list[tuple[int, str, str, int]]:
        """Of each sequence how many ops it has, the first one, where it begins, and how often it was gone through."""
        return [
            (len(sequence.steps), sequence.steps[0].op.name, line_text(sequence.place), sequence.calls)
            for _, sequences in self.by_place.values()
            for sequence in sequences.all
            if sequence.calls
        ]

    def call(self, function: Any, args: tuple, kwargs: dict[str, Any]) -> object:
        """A call of a function that had a scope the latest time."""
        before, MODES.sequences = MODES.sequences, self
        self.latest = False
        try:
            return function(*args, **kwargs)
        finally:
            MODES.sequences = before
            self.calls += self.latest
