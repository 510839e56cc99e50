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
        if step.event.kind != "op":
            return None
        statics = [value for kind, value in step.args if kind == "same"]
        if len(statics) + 1 != len(step.args):
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
        place = None if step.event.shape is None else step.results.index(number)
        root, since = (base, 0) if before is None else (before[0], before[5])
        return root, before, step.event.entry.op, tuple(statics), place, since

    def records_of(self, numbers: list[int]) -> dict[int, tuple | None]:
        """These values and those that they are views of, with the records, which keep the bases of this step."""
        records = {number: self.view_record(number) for number in numbers}
        for record in list(records.values()):
            if record is not None and type(record[0]) is Handed:
                records.setdefault(record[0].value.number, None)
        return records

    def link_read(self, numbers: Any) -> None:
        """Views that were read in a step, and so are plain already, are linked at its end."""
        for number in numbers:
            tensor = self.handed[number]
            if not isinstance(tensor, Handed) and tensor._meta is None:
                tensor._meta = self.view_record(number)
