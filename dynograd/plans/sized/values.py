"""What is common to the values of one program recorded at several sizes, and what they are at others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.autograd.nodes import Partial
from dynograd.plans.sized.memory import Differs, Part, SizedMemory
from dynograd.plans.sized.sizes import NoFormula, Number, Real
from dynograd.tensor.tensor import Tensor

__all__ = ["Common", "Nested"]


@dataclass(slots=True)
class Nested:
    """Values within others: a list, a slice, a tensor."""

    make: Any
    parts: list[Any]


class Common:
    """What is common to values of recorded programs: the value itself where it is the same in all, else what it is made of at other sizes."""

    def __init__(self, memory: SizedMemory) -> None:
        self.memory = memory

    def of(self, values: Sequence[Any], time: int) -> object:
        """What stands for these values, which the call `time` has.

        Raises:
            Differs: they are no functions of the sizes.
        """
        first = values[0]
        kind = type(first)
        if any([type(value) is not kind for value in values]):
            raise Differs(f"{[type(value).__name__ for value in values]}")
        if kind is ndarray:
            if not first.ndim and not first.flags.writeable and not all([value is first for value in values]):
                return self._constant(values)
            return self.memory.part(values, time)
        if kind is float:
            return self._real(values)
        if kind is int:
            return self.memory.number(values)
        if isinstance(first, (tuple, list)):
            if any([len(value) != len(first) for value in values]):
                raise Differs("lists of other lengths")
            parts = [self.of(inner, time) for inner in zip(*values)]
            if all([part is inner for part, inner in zip(parts, first)]):
                return first
            return Nested(kind._make if hasattr(kind, "_make") else kind, parts)
        if kind is slice:
            parts = [self.of([getattr(value, name) for value in values], time) for name in ("start", "stop", "step")]
            return first if not any([isinstance(part, Number) for part in parts]) else Nested(_as_slice, parts)
        if kind is Partial:
            names = list(first.parts)
            if any([list(value.parts) != names for value in values]):
                raise Differs("gradients of other results")
            parts = [self.of([value.parts[name] for value in values], time) for name in names]
            return Nested(lambda parts: Partial(dict(zip(names, parts))), parts)
        if isinstance(first, Tensor):
            array = self.memory.part([value.array for value in values], time)
            grad = first._requires_grad
            return Nested(lambda parts: _stand_in(parts[0], grad), [array])
        if all([value is first for value in values]):
            return first
        try:
            if all([bool(value == first) or bool(value != value and first != first) for value in values]):
                return first
        except (RuntimeError, TypeError, ValueError):
            pass
        if callable(first) and hasattr(first, "__code__") and all([_same_function(value, first) for value in values]):
            return first
        raise Differs(f"{first!r} and others")

    def _real(self, values: Sequence[float]) -> float | Real:
        try:
            return self.memory.sizes.real(values)
        except (NoFormula, OverflowError, ZeroDivisionError) as error:
            raise Differs(str(error)) from None

    def _constant(self, values: Sequence[Any]) -> object:
        """A number beside the tensors."""
        first = values[0]
        if any([value.dtype != first.dtype or value.ndim for value in values]):
            raise Differs("numbers of other kinds")
        numbers = [value.item() for value in values]
        if all([value.tobytes() == first.tobytes() for value in values]):
            return first
        common = self.of(numbers, 0)

        def make(parts: list[Any]) -> ndarray:
            array = numpy.array(parts[0], first.dtype)
            array.flags.writeable = False
            return array

        return Nested(make, [common])

    def at(self, common: Any, numbers: list[int]) -> Any:
        """The value at other sizes."""
        kind = type(common)
        if kind is Real:
            return common.at(numbers)
        if kind is Number:
            return numbers[common.place]
        if kind is Part:
            return self.memory.array_of(common, numbers)
        if kind is Nested:
            return common.make([self.at(part, numbers) for part in common.parts])
        return common


def _as_slice(parts: list[Any]) -> slice:
    return slice(*parts)


def _stand_in(array: Any, grad: bool) -> Tensor:
    tensor = Tensor.wrap(array)
    tensor._requires_grad = grad
    return tensor


def _same_function(function: Any, other: Any) -> bool:
    if getattr(function, "__code__", None) is not other.__code__:
        return False
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    others = [cell.cell_contents for cell in other.__closure__ or ()]
    return all(
        [
            cell is second or (type(cell) in (int, float, bool, str) and cell == second)
            for cell, second in zip(cells, others)
        ]
    )
