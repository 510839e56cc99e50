"""Arrays that recorded programs have beside their plans' memory, at several sizes: whole numbers in even steps, and what kernels write for one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from dynograd.arrays import ndarray
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.bound import computes_apart
from dynograd.plans.memory import bounds, is_part_of_any
from dynograd.plans.passes import saved_of
from dynograd.plans.sized.sizes import NoFormula, Number, Real, Sizes, at

__all__ = ["Extras"]

_MOST_NUMBERS = 1024


class Extras:
    """Memory in the place of such arrays, with room for the largest sizes.

    Args:
        programs: recorded at the sizes of the samples.
        sizes: of these.
    """

    def __init__(self, programs: Sequence[Any], sizes: Sizes) -> None:
        self.programs, self.sizes = programs, sizes
        self.known: list[
            tuple[list[tuple[int, int]], ndarray, Any]
        ] = []  # (where programs have it, the array, whose they are)
        for forms in zip(*[program.forms for program in programs]):  # where draws begin, which each step sets
            places: list[Any] = [getattr(form, "draw", None) for form in forms]
            if not any([place is None for place in places]):
                self.known.append(([bounds(place) for place in places], places[0], places))
        self.reals: list[tuple[ndarray, Real]] = []
        self.ramps: list[tuple[ndarray, list[int | Number]]] = []  # (array, count, first number, step)
        self._ramps_now: dict[int, tuple[int, ...]] = {}  # what they hold
        self.tables: list[tuple[ndarray, ndarray, ndarray]] = []  # (array, places of numbers, which numbers)

    def find(self, arrays: Sequence[Any], time: int) -> tuple[ndarray, int | Number] | None:
        """(array, offset) in the place of arrays that the programs have; None: these must be others.

        Args:
            time: the call that has them.
        """
        spans = [bounds(array) for array in arrays]
        for owned, array, _ in self.known:
            if all([low <= start and stop <= high for (low, high), (start, stop) in zip(owned, spans)]):
                return array, self.sizes.number([start - low for (low, _), (start, _) in zip(owned, spans)])
        if any([type(array) is not ndarray or not array.size for array in arrays]):
            return None
        wholes = [layouts.whole_of(array) for array in arrays]
        is_own = self._is_whole_numbers(arrays, time)
        ramp, real = (None, None) if is_own else (self._ramp(arrays), self._real(wholes))
        table = self._table(arrays) if not is_own and ramp is None and real is None else None
        if not is_own and ramp is None and real is None and table is None:
            if wholes[0] is not arrays[0] and wholes[0].dtype.kind in "fc":
                return self._part_of(wholes, spans, time)
            if not _is_uniform(arrays) and not self._is_scratch(arrays[0], time):
                return None
        room = self.sizes.largest(self.sizes.number([high - low for low, high in spans]))
        array = layouts.aligned((room,), numpy.uint8)
        self.known.append((spans, array, list(arrays)))
        if _is_uniform(arrays):
            array.view(arrays[0].dtype)[...] = arrays[0].flat[0]
        if ramp is not None:
            self.ramps.append((array.view(arrays[0].dtype), ramp))
        if table is not None:
            numbers = array.view(arrays[0].dtype)
            numbers[: len(table)] = arrays[0].reshape(-1)
            varying = [(place, number.place) for place, number in enumerate(table) if isinstance(number, Number)]
            if varying:
                places, which = [numpy.array(column, numpy.int64) for column in zip(*varying)]
                self.tables.append((numbers, places, which))
        if real is not None:
            self.reals.append((array.view(arrays[0].dtype)[:1], real))
        return array, 0

    def _part_of(
        self, wholes: list[Any], spans: list[tuple[int, int]], time: int
    ) -> tuple[ndarray, int | Number] | None:
        """The same of views, if what they are views of can be found."""
        where = self.find(wholes, time)
        if where is None:
            return None
        array, offset = where
        starts = [start - bounds(whole)[0] for whole, (start, _) in zip(wholes, spans)]
        if offset != 0:
            return None
        return array, self.sizes.number(starts)

    def _real(self, arrays: Sequence[Any]) -> Real | None:
        """A number beside the tensors."""
        if any([array.ndim or array.flags.writeable or array.dtype.kind != "f" for array in arrays]):
            return None
        try:
            real = self.sizes.real([float(array) for array in arrays])
        except (NoFormula, OverflowError, ZeroDivisionError):
            return None
        return real if isinstance(real, Real) else None

    def _ramp(self, arrays: Sequence[Any]) -> list[int | Number] | None:
        """Count, first number and step of whole numbers in even steps."""
        values: list[list[int]] = []
        for array in arrays:
            if array.dtype.kind not in "iu" or array.ndim != 1 or not array.flags.c_contiguous:
                return None
            steps = _even_steps(array)
            if steps is None:
                return None
            values.append([len(array), *steps])
        try:
            return [self.sizes.number(column) for column in zip(*values)]
        except NoFormula:
            return None

    def _table(self, arrays: Sequence[Any]) -> list[int | Number] | None:
        """A few whole numbers each of which has a formula, as kernels get them in one array."""
        first = arrays[0]
        if first.dtype.kind not in "iu" or first.size > _MOST_NUMBERS or not first.flags.c_contiguous:
            return None
        if any([array.shape != first.shape or not array.flags.c_contiguous for array in arrays]):
            return None
        try:
            return [self.sizes.number(column) for column in zip(*[array.reshape(-1).tolist() for array in arrays])]
        except NoFormula:
            return None

    def _is_whole_numbers(self, arrays: Sequence[Any], time: int) -> bool:
        """Whether they are those that the call's kernels write before they read them."""
        scratches = [
            getattr(form, "scratch", ()) for program in self.programs for form in program.forms[time : time + 1]
        ]
        return bool(scratches) and all(
            [any([array is own for own in scratch]) for array, scratch in zip(arrays, scratches)]
        )

    def _is_scratch(self, array: Any, time: int) -> bool:
        """Whether the call's kernels give the same whatever the array has held."""
        program = self.programs[0]
        call, form = program.calls[time], program.forms[time]
        if not array.flags.writeable or array.dtype.kind not in "fc" or not form or call.kind not in ("op", "rule"):
            return False
        saved = [] if call.node is None else saved_of(call.node)
        if is_part_of_any(array, [*call.inputs, *call.outputs, *call.saved, *saved]):
            return False
        kept = array.copy(order="K")
        try:
            array.view(numpy.uint8)[...] = 0xFF
            return computes_apart(call, list(form), form.exact, form.places)
        except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError):
            return False
        finally:
            array[...] = kept

    def resize(self, numbers: Sequence[int], ramps: Sequence[int] | None = None) -> None:
        """The sizes are those with these numbers. Some of the ramps may be others now; None: all."""
        for place in range(len(self.ramps)) if ramps is None else ramps:
            array, ramp = self.ramps[place]
            ends = count, first, step = tuple([at(number, numbers) for number in ramp])
            if self._ramps_now.get(place) != ends:
                self._ramps_now[place] = ends
                array[:count] = first + step * numpy.arange(count)
        if self.tables:
            known = numpy.array(numbers, numpy.int64)
            for array, places, which in self.tables:
                array[places] = known[which]
        for array, real in self.reals:
            array[...] = real.at(numbers)


def _even_steps(array: ndarray) -> tuple[int, int] | None:
    """First number and step of an array of whole numbers; they are the bits of other numbers at times, and far apart."""
    first, second = array[:2].tolist() if len(array) > 1 else array.tolist() * 2
    step = second - first
    ends = [first, first + step * (len(array) - 1)]
    if min(ends) < -(2**63) or max(ends) >= 2**63 or (array != first + step * numpy.arange(len(array))).any():
        return None
    return first, step


def _is_uniform(arrays: Sequence[Any]) -> bool:
    """Whether they hold one number throughout, as zeros do in the place of a gradient that nobody sent."""
    first = arrays[0].reshape(-1)[:1]
    return first.dtype.kind in "fc" and all([array.dtype == first.dtype and (array == first).all() for array in arrays])
