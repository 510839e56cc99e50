"""The sizes of the tensors among a function's arguments, and which of them belong to tensors that no op gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.interpreter.override_protocol import is_overriding
from dynograd.plans.sized.marks import MARKS, shape_of
from dynograd.plans.sized.sizes import flat_sizes
from dynograd.tensor.tensor import Tensor

__all__ = ["any_requires_grad", "idle_places", "sizes_of", "tensors_in"]


def sizes_of(values: Any) -> tuple:
    """The shapes of all tensors among the values; of a ragged one those of its elements, and how many rows it has, and the longest."""
    sizes: list[Any] = []
    for value in values.values() if isinstance(values, dict) else values:
        if type(value) is Tensor:
            sizes.append(shape_of(value) if MARKS else value.array.shape)
        elif isinstance(value, (tuple, list, dict)):
            if value:
                sizes.append(sizes_of(value))
        elif getattr(type(value), "__dynograd_rows__", False):  # ragged; texts have a method `partition`
            sizes.append((*value.packed.shape, value.partition.count, value.partition.longest))
        elif isinstance(value, Tensor):
            sizes.append(tuple((value.array if is_overriding(type(value)) else value).shape))
    return tuple(sizes)


def tensors_in(values: Any) -> list[Any]:
    """The tensors among the values, and what else there is, in the order of `sizes_of`."""
    tensors: list[Any] = []
    for value in values.values() if isinstance(values, dict) else values:
        tensors += tensors_in(value) if isinstance(value, (tuple, list, dict)) else [value]
    return tensors


def any_requires_grad(values: Any) -> bool:
    """Whether one of the tensors among the values does."""
    for value in values.values() if isinstance(values, dict) else values:
        if type(value) is Tensor:
            if value._requires_grad:
                return True
        elif isinstance(value, (tuple, list, dict)):
            if any_requires_grad(value):
                return True
        elif isinstance(value, Tensor) and value._requires_grad:
            return True
    return False


def idle_places(tensors: Sequence[Any], outside: Sequence[Any]) -> list[int]:
    """The places, in the order of `flat_sizes`, of the sizes of tensors that are none of those from outside that a record has.

    Args:
        tensors: among the arguments, as the call began.
        outside: of the record.
    """
    read = {id(other.tensor) for other in outside}
    places: list[int] = []
    count = 0
    for value in tensors:
        sizes, _ = flat_sizes(sizes_of([value]))
        if type(value) is Tensor and id(value) not in read:
            places += range(count, count + len(sizes))
        count += len(sizes)
    return places
