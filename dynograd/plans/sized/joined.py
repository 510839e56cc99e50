"""Lists of tensors that a step joins before it computes anything of them: the sentences of a batch, of any lengths and number.

Such a join runs as it is written. Its result is a tensor from outside, of another size in each step, and the record begins there: one record holds
for rows of all lengths then, where formulas of each row's length would need a record for each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from dynograd.arrays import ndarray
from dynograd.ops.op import Op
from dynograd.tensor.tensor import Tensor

__all__ = ["JoinedLists"]

_DEEPEST = 4  # lists within each other
_LONGEST = 4096  # a list that is looked through

Place = tuple[Any, ...]  # the number or name of an argument, and those of elements from there on


class JoinedLists:
    """Of one function: the lists among its arguments that only joins have read. Their sizes say nothing of a step."""

    def __init__(self) -> None:
        self.places: set[Place] = set()
        self._read: set[Place] = set()  # by other ops as well, in some call

    def is_join(self, op: Op, args: tuple, arguments: tuple) -> bool:
        """Whether an op joins tensors without history along dim 0 that differ in it, or belong to one of the lists.

        Args:
            args: of the op.
            arguments: of the function: (args, kwargs).
        """
        if op.name != "cat":
            return False
        tensors, dim = args
        if not all([_is_data(tensor) for tensor in tensors]) or dim not in (0, -tensors[0].array.ndim):
            return False
        return _is_uneven(tensors) or self._has(tensors, arguments)

    def _has(self, tensors: Sequence[Tensor], arguments: tuple) -> bool:
        members = {id(tensor) for place in self.places for tensor in _list_at(place, arguments)}
        return bool(members) and all([id(tensor) in members for tensor in tensors])

    def learn(self, arguments: tuple, joined: Collection[int], read: Collection[int]) -> None:
        """A call is recorded.

        Args:
            joined: ids of the tensors that were joined as it is written.
            read: ids of those from outside that the record has.
        """
        for place in list(self.places):
            if any([id(tensor) in read for tensor in _list_at(place, arguments)]):
                self.places.discard(place)
                self._read.add(place)
        args, kwargs = arguments
        for name, value in (*enumerate(args), *kwargs.items()):
            for place, tensors in _lists_in(value, (name,)):
                ids = [id(tensor) for tensor in tensors]
                is_read = place in self._read or any([number in read for number in ids])
                if not is_read and (_is_uneven(tensors) or all([number in joined for number in ids])):
                    self.places.add(place)

    def left_out_of(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments of a call without these lists."""
        arguments = [args, kwargs]
        for place in self.places:
            number = 0 if type(place[0]) is int else 1
            arguments[number] = _without(arguments[number], place)
        return arguments[0], arguments[1]


def _is_data(tensor: Any) -> bool:
    return (
        type(tensor) is Tensor and type(tensor.array) is ndarray and not tensor._requires_grad and tensor.node is None
    )


def _is_uneven(tensors: Sequence[Tensor]) -> bool:
    return len({tensor.shape for tensor in tensors}) > 1


def _lists_in(value: Any, place: Place) -> Iterator[tuple[Place, Sequence[Tensor]]]:
    """Lists of tensors alone, wherever they lie in lists and dicts."""
    if not isinstance(value, (list, tuple, dict)) or len(place) > _DEEPEST or not 0 < len(value) <= _LONGEST:
        return
    if not isinstance(value, dict) and all([type(element) is Tensor for element in value]):
        yield place, value
        return
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _lists_in(inner, (*place, name))


def _list_at(place: Place, arguments: tuple) -> Sequence[Tensor]:
    """The tensors that are there in this call."""
    value: Any = arguments[0] if type(place[0]) is int else arguments[1]
    for part in place:
        try:
            value = value[part]
        except (IndexError, KeyError, TypeError):
            return ()
    return value if isinstance(value, (list, tuple)) else ()


def _without(value: Any, place: Place) -> object:
    """A list or dict with nothing at a place, wherever it has one there."""
    if isinstance(value, dict):
        rest: Any = dict(value)
        keys: Any = rest
    elif isinstance(value, (list, tuple)):
        rest = list(value)
        keys = range(len(rest))
    else:
        return None if not place else value
    if not place:
        return None
    if place[0] in keys:
        rest[place[0]] = _without(rest[place[0]], place[1:])
    return rest
