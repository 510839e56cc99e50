"""What a thread notes while it records a program for export, beside the ops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from dynograd.autograd.modes import MODES
from dynograd.base import values
from dynograd.ops.readers import Reader
from dynograd.plans.recording import Recording

__all__ = ["Notes", "aside", "notes_of_thread", "noted", "recording_of_thread", "turned_on"]


@dataclass
class Notes:
    """Of one recorded program.

    Args:
        readings: (method, line, number of the value; None for an argument) of each value that it reads.
        structures: `cond`, `while_loop` and their like, each with the record that it belongs to.
        lengths: tensors that are lengths of padded rows, described, and the shape of these, each with the record that it belongs to.
        around: records of the programs around it.
    """

    readings: list[tuple[str, str, int | None]] = field(default_factory=list)
    structures: list[tuple[Recording, Any]] = field(default_factory=list)
    lengths: list[tuple[Recording, Any, tuple[int, ...]]] = field(default_factory=list)
    around: tuple[Recording, ...] = ()

    def is_known(self, plan: Recording, tensor: Any) -> bool:
        """Whether a record has made a tensor, or was called with it, or has it from a structure or from around it."""
        results = [result for _, structure in self.structures for result in structure.results]
        plans = (plan, *self.around)
        known = any([id(tensor) in each.numbers or id(tensor) in each.arguments for each in plans])
        return known or any([tensor is result for result in results])


class _OfThread(threading.local):
    notes: Notes | None = None


_of_thread = _OfThread()


def notes_of_thread() -> Notes | None:
    """What this thread notes into; None: it records nothing for export."""
    return _of_thread.notes


def recording_of_thread() -> Recording | None:
    """The record that this thread makes for export now, unless it is inside an op."""
    plan = MODES.plan
    return plan if _of_thread.notes is not None and type(plan) is Recording and not plan.inside else None


def _is_exported(tensor: Any) -> bool:
    plan, notes = recording_of_thread(), notes_of_thread()
    return plan is not None and notes is not None and notes.is_known(plan, tensor)


values.exporters.append(_is_exported)


@contextmanager
def noted() -> Iterator[Notes]:
    """Notes what this thread does, until the end; it records apart from what is recorded around it."""
    before, plan = _of_thread.notes, MODES.plan
    around = () if before is None else (*before.around, *([plan] if type(plan) is Recording else []))
    notes = _of_thread.notes = Notes(around=around)
    MODES.plan = None
    try:
        yield notes
    finally:
        _of_thread.notes, MODES.plan = before, plan


@contextmanager
def turned_on(*readers: Reader) -> Iterator[None]:
    """The readers are on, until the end."""
    with ExitStack() as stack:
        for reader in readers:
            reader.turn_on()
            stack.callback(reader.turn_off)
        yield


@contextmanager
def aside() -> Iterator[None]:
    """Inside, this thread records and notes nothing."""
    plan, MODES.plan = MODES.plan, None
    notes, _of_thread.notes = _of_thread.notes, None
    try:
        yield
    finally:
        MODES.plan, _of_thread.notes = plan, notes
