"""What a program says of the sizes of its tensors: that they change, or that each of them is to be recorded by itself."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from dynograd.tensor.tensor import Tensor

__all__ = ["MARKS", "Static", "any_dynamic", "mark", "shape_of"]

MARKS: dict[
    int, tuple[Any, dict[int, bool]]
] = {}  # by the id of a tensor: (the tensor, weakly; dim -> whether it changes)


class Static(int):
    """A size that no formula is found from."""


def mark(who: str, tensor: Any, index: int | Sequence[int] | None, changes: bool) -> None:
    """Notes it of some dims of a tensor, None: of all; what was said last counts."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{who}: expected a tensor, got {type(tensor).__name__} ({tensor!r}).")
    dims = range(tensor.ndim) if index is None else [index] if isinstance(index, int) else list(index)
    for dim in dims:
        if not -tensor.ndim <= dim < tensor.ndim:
            raise IndexError(
                f"{who}: expected dims from {-tensor.ndim} to {tensor.ndim - 1} of a tensor of shape {tuple(tensor.shape)}, got {dim}."
            )
    key = id(tensor)
    known, marks = MARKS.get(key, (None, {}))
    if known is None or known() is not tensor:
        marks = {}
        MARKS[key] = weakref.ref(tensor, lambda _: MARKS.pop(key, None)), marks
    marks.update({dim % tensor.ndim: changes for dim in dims})


def _marks_of(tensor: Any) -> dict[int, bool]:
    known, marks = MARKS.get(id(tensor), (None, {}))
    return marks if known is not None and known() is tensor else {}


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape, with sizes that were said to stay as `Static`."""
    shape: tuple[int, ...] = tensor.array.shape
    if not MARKS:
        return shape
    marks = _marks_of(tensor)
    return tuple([size if marks.get(dim, True) else Static(size) for dim, size in enumerate(shape)])


def any_dynamic(values: Any) -> bool:
    """Whether one of the tensors among some arguments was said to change."""
    if not MARKS:
        return False
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Tensor):
            if any(_marks_of(value).values()):
                return True
        elif isinstance(value, (tuple, list, dict)) and any_dynamic(value):
            return True
    return False
