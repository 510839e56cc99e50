"""`checkpoint` in a step that is recorded or walked: its function runs once, and the plan computes it again where backward needs that.

A function that is checkpointed must do the same both times, so Python need not run it twice. What does not hold for it is a write into
what it has not made: that happens twice as it is written. Such a part begins anew, as it is written, before it has written anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base.random_streams import default_generator
from dynograd.transforms.checkpoint import RunsAsWritten

__all__ = ["Parts", "Part"]

Part = tuple[int, int]
"""The numbers of the first event of a checkpointed part, and of the first one behind it."""


class Parts:
    """Those of a step so far, outer ones behind what they contain."""

    at: Any

    def begin_parts(self) -> None:
        self.parts: list[Part] = []
        self.opened: list[int] = []  # the first events of parts that are not over

    def take_parts(self, other: Any) -> None:
        """The step is that of `other` so far, with the same events."""
        self.parts, self.opened = list(other.parts), list(other.opened)

    def in_part(self: Any, run: Callable[[], Any]) -> tuple[Any] | None:
        """What a checkpointed function gives, in a tuple. None: it has to run as it is written."""
        if not self.takes_parts():
            return None
        state = default_generator.state()
        self.opened.append(self.next_event())
        try:
            result = run()
        except RunsAsWritten:
            if len(self.opened) > 1:
                raise
            default_generator.set_plain_state(state)
            return None
        finally:
            start = self.opened.pop()
            plan = MODES.plan
            if plan is not self and isinstance(plan, Parts):  # the walk has ended within
                plan.opened.pop()
            if isinstance(plan, Parts):
                plan.parts.append((start, plan.next_event()))
        return (result,)

    def before_write_in_part(self: Any, tensor: Any) -> None:
        """A tensor is to be written; a part may write only what it has made."""
        if self.opened and not self.is_made_since(tensor, self.opened[0]):
            self.end_for("a checkpointed function writes into what it has not made")
            raise RunsAsWritten
