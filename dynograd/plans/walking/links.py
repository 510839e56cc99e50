"""What a walk's tensors are views of: they are linked to it when they become plain, so that a write into one carries its history to the other."""

from __future__ import annotations

from typing import Any

from dynograd.interpreter.tensor_parts import view_of
from dynograd.plans.handed import Handed

__all__ = ["WalkedLinks"]


class WalkedLinks:
    """The part of a walk that knows them."""

    handed: list[Any]
    makers: list[list[Any]]
    values: list[Any]
    _is_nowhere: Any
    _outside_now: Any

    def view_record(self, number: int) -> tuple | None:
        """The record of what a recorded value is a view of, as a tensor has it that is one; None where it is none.

        It begins with no write: whoever asks the view for its history finds all that were made since.
        """
        if not self.values[number].is_view:
            return None
        step = self.makers[number][0]
        if step.event.kind != "op" or any([kind != "same" for kind, _ in step.args[1:]]):
            return None
        kind, content = step.args[0]
        if kind == "value":
            base, before = self.handed[content], self.view_record(content)
            if before is None and self._is_nowhere(content):
                return None
        elif kind == "outside":
            base = self._outside_now(step.path, content)
            before = view_of(base)
        else:
            return None
        statics = tuple([value for _, value in step.args[1:]])
        place = None if step.event.shape is None else step.results.index(number)
        root, since = (base, 0) if before is None else (before[0], before[5])
        return root, before, step.event.entry.op, statics, place, since

    def with_bases(self, numbers: list[int]) -> list[int]:
        """These values and, ahead of them, those that they are views of."""
        bases = []
        for number in numbers:
            record = self.view_record(number)
            if record is not None and type(record[0]) is Handed and record[0].value.number not in numbers:
                bases.append(record[0].value.number)
        return [*dict.fromkeys(bases), *numbers]

    def link_read(self, numbers: Any) -> None:
        """Views that were read in a step, and so are plain already, are linked at its end."""
        for number in numbers:
            tensor = self.handed[number]
            if not isinstance(tensor, Handed) and tensor._meta is None:
                tensor._meta = self.view_record(number)
