"""Steps with scopes of `autobatch`: they run as they are written, and what their scopes have in common is kept from call to call."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.autograd.nodes import line_text
from dynograd.transforms.autobatch.record.sequences import Sequences

__all__ = ["Scopes"]

REASON = "a scope of autobatch, whose ops run in groups"


class Scopes:
    """Of a compiled function: its scopes, and the sequences of ops in them."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.sequences: Any = None
        self.calls = 0  # with a scope
        self.latest = False  # whether the latest call had one

    def begin(self) -> Sequences | None:
        """A scope begins: what its recorder goes by; nothing in exact mode, where other groups might give other bits."""
        self.latest = True
        if self.sequences is None and not self.exact:
            self.sequences = Sequences()
        return self.sequences

    def listed(self) -> list[tuple[int, str, str, int]]:
        """Of each sequence how many ops it has, the first one, where it begins, and how often it was gone through."""
        return [
            (len(sequence.steps), sequence.steps[0].op.name, line_text(sequence.place), sequence.calls)
            for sequence in ([] if self.sequences is None else self.sequences.all)
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
