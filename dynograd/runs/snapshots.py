"""Copies of a run's states in memory, taken every few steps. The memory of a dropped copy is used for the next."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy

from dynograd import arrays
from dynograd.autograd import no_grad
from dynograd.tensor.tensor import Tensor

__all__ = ["Snapshot", "Snapshots", "array_of", "copied", "non_finite"]


@dataclass
class Snapshot:
    """The states before step `step`."""

    step: int
    content: dict[str, Any]


class Snapshots:
    """The newest `most` snapshots, oldest first."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: list[Snapshot] = []
        self.spare: dict[Any, Tensor] = {}

    def take(self, step: int, content: dict[str, Any]) -> None:
        """Copies what it is given; the oldest goes when there are too many."""
        self.drop_from(step)
        if len(self.held) == self.most:
            self._recycle(self.held.pop(0))
        self.held.append(Snapshot(step, copied(content, self.spare)))
        self.spare = {}

    def drop_from(self, step: int) -> None:
        """Forgets the snapshots of `step` and later ones, which belong to a course that was left."""
        while self.held and self.held[-1].step >= step:
            self._recycle(self.held.pop())

    def before(self, step: int) -> Snapshot | None:
        """The newest of those at or before `step`."""
        return next((snapshot for snapshot in reversed(self.held) if snapshot.step <= step), None)

    def last_finite(self) -> Snapshot | None:
        """The newest without NaN or new infinities, found by halving: a weight that is NaN stays so. None: the oldest has them too."""
        if not self.held:
            return None
        usual = non_finite(self.held[0].content)
        if any(nan for nan, _ in usual.values()):
            return None
        good, bad = 0, len(self.held)
        while bad - good > 1:
            middle = (good + bad) // 2
            nonfinite = non_finite(self.held[middle].content)
            if all([counts == usual.get(place, (0, 0)) for place, counts in nonfinite.items()]):
                good = middle
            else:
                bad = middle
        return self.held[good]

    def _recycle(self, old: Snapshot) -> None:
        _walk(old.content, (), lambda place, tensor: self.spare.__setitem__(place, tensor))


def array_of(tensor: Any) -> Any:
    """The elements of a tensor as a dense array, those of a ragged one end to end; None for other kinds (sparse ones, say)."""
    array = (tensor.packed if hasattr(type(tensor), "__dynograd_rows__") else tensor).array
    return array if arrays.is_array(array) else None


def copied(value: Any, spare: dict[Any, Tensor] | None = None, place: tuple = ()) -> Any:
    """A copy that shares no memory with `value`; tensors lie in those of `spare` that fit."""
    if isinstance(value, Tensor):
        return _copied_tensor(value, None if spare is None else spare.pop(place, None))
    if isinstance(value, dict):
        copied_dict = copy.copy(value)  # its class and attributes stay: a state_dict has _metadata
        for key, entry in value.items():
            copied_dict[key] = copied(entry, spare, (*place, key))
        return copied_dict
    if type(value) in (list, tuple):
        return type(value)([copied(entry, spare, (*place, number)) for number, entry in enumerate(value)])
    return copy.deepcopy(value)


def non_finite(value: Any) -> dict[tuple, tuple[int, int]]:
    """(elements that are NaN, elements that are infinite) by place, where there are any."""
    counts: dict[tuple, tuple[int, int]] = {}

    def look(place: tuple, tensor: Tensor) -> None:
        array = array_of(tensor)
        if array is not None and not arrays.is_finite(array):
            plain = numpy.asarray(arrays.to_numpy(array))
            nan = int(numpy.isnan(plain).sum())
            counts[place] = (nan, int((~numpy.isfinite(plain)).sum()) - nan)

    _walk(value, (), look)
    return counts


def _copied_tensor(tensor: Tensor, room: Tensor | None) -> Tensor:
    if array_of(tensor) is not getattr(tensor, "array", None):
        room = None  # rows, or entries of a sparse tensor
    with no_grad():
        if room is None or (room.shape, room.dtype, room.device) != (tensor.shape, tensor.dtype, tensor.device):
            copied = tensor.detach().clone()
        else:
            copied = room
            copied.copy_(tensor)
    copied.requires_grad = tensor.requires_grad and tensor.is_leaf
    return copied


def _walk(value: Any, place: tuple, action: Any) -> None:
    if isinstance(value, Tensor):
        action(place, value)
    elif isinstance(value, dict):
        for key, entry in value.items():
            _walk(entry, (*place, key), action)
    elif isinstance(value, (list, tuple)):
        for number, entry in enumerate(value):
            _walk(entry, (*place, number), action)
