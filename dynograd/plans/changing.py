"""Tensors from outside of which others come in other steps: rows of a memory that are picked anew each time, and were met before by chance."""

from __future__ import annotations

import weakref
from typing import Any

from dynograd.plans.recording import kind_of
from dynograd.plans.sized.changing_numbers import ChangingNumbers
from dynograd.tensor.tensor import Tensor

__all__ = ["Changing"]

_MOST_TENSORS = 1 << 12  # that are noted before those are forgotten which are there no more


class Changing:
    """Those that one function has met. A record copies them in each step, as it does with what it meets for the first time."""

    def __init__(self) -> None:
        self.tensors: dict[int, Any] = {}  # weakly, by id
        self.numbers = ChangingNumbers()
        self.overlaps = False  # those that share memory do not always lie in it at the same distances

    def has(self, tensor: Any) -> bool:
        reference = self.tensors.get(id(tensor))
        return reference is not None and reference() is tensor

    def has_any(self, values: Any) -> bool:
        """Whether one of the tensors of a list changes: then all do."""
        return bool(self.tensors) and any([isinstance(value, Tensor) and self.has(value) for value in values])

    def note(self, step: Any, args: tuple) -> None:
        """An op gets these operands where the record has others."""
        self._note_in(step.path, step.args, args)

    def _note_in(self, path: Any, described: tuple, args: tuple) -> None:
        pairs = []
        for (kind, content), value in zip(described, args):
            if kind == "list" and type(value) is content[0] and len(value) == len(content[1]):
                self._note_in(path, content[1], value)
            elif kind == "outside" and isinstance(value, Tensor) and _may_change(path.outside[content], value):
                pairs.append((path.outside[content].tensor, value))
        if any([value is not tensor for tensor, value in pairs]):
            for pair in pairs:
                for tensor in pair:
                    self.add(tensor)

    def add(self, tensor: Any) -> None:
        """Another tensor has come in its place, or it in that of another one."""
        if len(self.tensors) >= _MOST_TENSORS:
            self.tensors = {key: known for key, known in self.tensors.items() if known() is not None}
        self.tensors[id(tensor)] = weakref.ref(tensor)

    def concern(self, paths: list[Any]) -> bool:
        """Whether one of these ways expects that such a tensor, number or distance stays."""
        return any(
            [
                (self.overlaps and bool(path.overlaps))
                or not path.constant_numbers.isdisjoint(self.numbers.changing)
                or any([self.has(outside.tensor) for outside in path.staying])
                for path in paths
            ]
        )


def _may_change(outside: Any, value: Tensor) -> bool:
    """Whether the record expects a tensor to stay, without a gradient, and this one could stand in its place."""
    if outside.fresh or outside.grad or outside.meta is not None:
        return False
    return value.node is None and value._meta is None and _sort_of(kind_of(value)) == _sort_of(outside.kind)


def _sort_of(kind: tuple[Any, ...]) -> tuple[Any, ...]:
    """The kind of a tensor of whatever sizes."""
    array, dtype, shape, _, grad = kind
    return array, dtype, len(shape), grad
