"""Numbers that the program computes in Python and that are others in each step: a weight that is annealed, a factor by which something is clipped.

A record first has such a number as a constant. When another one has come in its place, records have a tensor of one element there instead, which a
walk fills anew in each step. That is done for sums, differences, products and quotients with a floating tensor, which give the same bits for both.

So it is with NumPy arrays of numbers that ops get (places, bags of indices, factors). Masks stay constants: the shape of a result may follow from them.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.base import dtypes
from dynograd.interpreter import TENSORS
from dynograd.ops.readers import Entry
from dynograd.plans.sized.sizes import flat_sizes
from dynograd.tensor.tensor import Tensor

__all__ = ["ChangingNumbers", "arrays_among", "numbers_among", "tensor_of"]

Key = tuple[Any, ...]  # the line, the op, the place among its operands, and how often that came before in the step

_FORMULA = re.compile("input [-+*/] other")
_DTYPES = {dtypes.float32: numpy.dtype("float32"), dtypes.float64: numpy.dtype("float64")}
_FEWEST_SIZES = (
    6  # at which a number that follows from none of them changes by itself: functions of sizes are found from three on
)
_MOST_NOTED = 1 << 10
_FEWEST_OF_RAMP = 3  # elements: two are always at an even distance


def tensor_of(value: Any, dtype: Any) -> Tensor | None:
    """A number as a tensor of one element; None of all else, and of a number that the dtype has no place for."""
    if type(value) is not float and (type(value) is not int or abs(value) >= 1 << 24):
        return None
    if value - value == 0 and abs(value) > numpy.finfo(dtype).max:
        return None
    return Tensor.wrap(numpy.array(value, dtype))


def _follows_from_a_size(values: dict[tuple, Any]) -> bool:
    """Whether numbers at several sizes are the same, or proportional to a size, its inverse, or the root of either."""
    rows = [flat_sizes(sizes)[0] for sizes in values]
    if len(set(map(len, rows))) > 1:  # not the same tensors in all calls: nothing is known of it
        return True
    numbers, columns = numpy.array(list(values.values()), float) ** 2, numpy.array(rows, float).T
    quotients = [numbers, *[numbers * power for column in columns for power in (column, column**2)]]
    quotients += [numbers / power for column in columns for power in (column, column**2) if column.all()]
    return any([bool(numpy.allclose(quotient, quotient[0], rtol=1e-9, atol=0)) for quotient in quotients])


class ChangingNumbers:
    """Those that one function has met in its records."""

    def __init__(self) -> None:
        self.noted: dict[Key, dict[tuple, Any]] = {}  # the numbers by the sizes of the arguments
        self.changing: set[Key] = set()
        self.tensors: dict[int, Tensor] = {}  # of those in this step, by id

    def begin_step(self) -> None:
        self.tensors = {}

    def tensor(self, value: Any, dtype: Any) -> Tensor | None:
        """A number of this step as a tensor."""
        result = tensor_of(value, dtype)
        if result is not None:
            self.tensors[id(result)] = result
        return result

    def has(self, tensor: Any) -> bool:
        """Whether a tensor is a number of this step."""
        return self.tensors.get(id(tensor)) is tensor

    def note(self, key: Key, value: Any, sizes: tuple) -> bool:
        """The number that a record has at a place. Gives whether others come there."""
        if key in self.changing:
            return True
        if len(self.noted) >= _MOST_NOTED and key not in self.noted:
            return False
        values = self.noted.setdefault(key, {})
        before = values.setdefault(sizes, value)
        others = before != value and not (before != before and value != value)
        if others or (len(values) >= _FEWEST_SIZES and not _follows_from_a_size(values)):
            self.changing.add(key)
            del self.noted[key]
            return True
        return False

    def note_array(self, key: Key, array: Any, sizes: tuple) -> bool:
        """The same of an array. One that follows from sizes alone is a constant at each."""
        if key in self.changing:
            return True
        if _is_ramp(array) or (len(self.noted) >= _MOST_NOTED and key not in self.noted):
            return False
        mark = array.shape, array.dtype.str, hashlib.blake2b(array.tobytes(), digest_size=16).digest()
        if self.noted.setdefault(key, {}).setdefault(sizes, mark) == mark:
            return False
        self.changing.add(key)
        del self.noted[key]
        return True


def _is_of_numbers(value: Any) -> bool:
    return type(value) is ndarray and value.dtype.kind in "iufV"


def _is_ramp(array: Any) -> bool:
    """Whether an array is empty, or its elements are at even distances, which may follow from a size."""
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size < _FEWEST_OF_RAMP:
        return not array.size
    distances = numpy.diff(array)
    return bool((distances == distances[0]).all())


def arrays_among(entry: Entry, args: tuple) -> list[tuple[int, int | None]]:
    """The places of NumPy arrays among the operands of an op, without masks, of which shapes may follow: which operand, and which element of a list."""
    places: list[tuple[int, int | None]] = []
    for place, name in enumerate(entry.op.parameter_names):
        value = args[place]
        if name in entry.op.array_names and _is_of_numbers(value):
            places.append((place, None))
        elif name in entry.op.array_names and type(value) is list:
            places += [(place, number) for number, element in enumerate(value) if _is_of_numbers(element)]
    return places


def numbers_among(entry: Entry, args: tuple) -> list[tuple[int, Any]]:
    """(place, dtype) of the numbers among the operands of an op that may stand there as tensors."""
    op = entry.op
    if op.formula is None or _FORMULA.fullmatch(op.formula) is None:
        return []
    operands = [(place, args[place]) for place, name in enumerate(op.parameter_names) if name in op.array_names]
    tensors = [value for _, value in operands if type(value) in TENSORS or isinstance(value, Tensor)]
    if len(tensors) != 1 or tensors[0].dtype not in _DTYPES or tensors[0].is_sparse:
        return []
    return [(place, _DTYPES[tensors[0].dtype]) for place, value in operands if type(value) in (float, int)]
