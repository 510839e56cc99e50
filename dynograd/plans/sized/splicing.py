"""A program at new sizes put together of what it was at others: each kernel, array and check that follows one size alone was that before.

A step whose values say how many rows each of several parts gets hardly ever comes with the same numbers together, though each of them soon comes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from dynograd.plans.sized.calls import SizedCall
from dynograd.plans.sized.memory import Part
from dynograd.plans.sized.sizes import Number, Real
from dynograd.plans.sized.values import Nested

__all__ = ["Splices"]

_MOST_STATES = 1024


class Splices:
    """What of a program for several sizes follows which of them.

    Args:
        program: with all its numbers.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self.states: dict[Any, Any] = {}  # by (which size, how large): the program when it was that
        self.usable = True
        rows = [self._rows_of(bound) for bound in program.tables]
        lists = [
            self._by_size([self._sizes_of(value) for value in values])
            for values in (program._arrays, program._outside, program._seeds, program._gradients)
        ]
        checks = self._by_size([self._sizes_of(vars(checked)) for checked in program.checked])
        if any([self._sizes_of(vars(call)) for call in program.apart]):
            self.usable = False
        count = len(program.sizes.places)
        self.parts = [
            (
                [table[size] for table in rows],
                [places[size] for places in lists],
                [program.checked[n].number for n in checks[size]],
            )
            for size in range(count if self.usable else 0)
        ]

    def _sizes_of(self, value: Any) -> frozenset[int]:
        known = self.program.sizes.sizes_of
        return frozenset().union(*[known(number) for number in _numbers_in(value)])

    def _by_size(self, followed: Sequence[frozenset[int]]) -> list[list[int]]:
        """The numbers of those that follow each of the sizes."""
        if any([len(sizes) > 1 for sizes in followed]):
            self.usable = False
        return [
            [number for number, sizes in enumerate(followed) if size in sizes]
            for size in range(len(self.program.sizes.places))
        ]

    def _rows_of(self, bound: Any) -> list[tuple[Any, Any, list[int]]]:
        """Of a table, by size: the places of words, of data and of rows that follow it."""
        if bound.table is None:
            empty = numpy.zeros(0, numpy.int64)
            return [(empty, empty, [])] * len(self.program.sizes.places)
        begins = [*bound.table.first_words.tolist(), len(bound.table.words)]
        followed: list[set[int]] = [set() for _ in begins[1:]]
        for place, number in bound.followed():
            row = int(numpy.searchsorted(begins, place, side="right")) - 1
            followed[row] |= self._sizes_of(number)
        rows = self._by_size([frozenset(sizes) for sizes in followed])
        _, which, _ = slots = bound.moving
        data = self._by_size([self.program.sizes.sizes_of(Number(int(number))) for number in which])
        return [
            (
                numpy.concatenate(
                    [numpy.arange(begins[row], begins[row + 1]) for row in rows[size]] or [numpy.zeros(0, numpy.int64)]
                ),
                slots[0][data[size]],
                rows[size],
            )
            for size in range(len(rows))
        ]

    def note(self, state: Any, sizes: Sequence[int]) -> None:
        """The program was of these sizes, in the order of their places."""
        for key in enumerate(sizes):
            if key not in self.states:
                while len(self.states) >= _MOST_STATES:
                    del self.states[next(iter(self.states))]
                self.states[key] = state

    def go(self, before: Sequence[int], sizes: Sequence[int], numbers: list[int]) -> bool:
        """Makes the program, which is of the sizes `before`, one of others; False: nothing is done."""
        changed = [size for size in range(len(sizes)) if sizes[size] != before[size]]
        states: list[Any] = [self.states.get((size, sizes[size])) for size in changed]
        if not self.usable or any([state is None for state in states]):
            return False
        program = self.program
        lists = [list(values) for values in (program.arrays, program.outside, program.seeds, program.gradients)]
        checks = dict(program.plain.checks)
        for size, state in zip(changed, states):
            rows, places, checked = self.parts[size]
            for bound, words, (which, slots, its_rows) in zip(program.tables, state.words, rows):
                if words:
                    bound.put(words, which, slots, its_rows)
            for values, others, numbers_of in zip(
                lists, (state.arrays, state.outside, state.seeds, state.gradients), places
            ):
                for number in numbers_of:
                    values[number] = others[number]
            checks |= {number: state.checks[number] for number in checked}
        program.arrays, program.outside, program.seeds, program.gradients = lists
        program.numbers = numbers
        program._set_checks(checks)
        program.memory.extras.resize(numbers)
        return True


def _numbers_in(value: Any) -> Iterator[Number]:
    """Those of what is common to the values of several programs."""
    if isinstance(value, Number):
        yield value
    elif isinstance(value, Real):
        yield from _numbers_in(value.whole)
    elif isinstance(value, Part):
        yield from _numbers_in((value.offset, value.shape, value.strides))
    elif isinstance(value, dict):
        yield from _numbers_in(list(value.values()))
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _numbers_in(inner)
    elif isinstance(value, Nested):
        yield from _numbers_in(value.parts)
    elif isinstance(value, SizedCall):
        yield from _numbers_in(vars(value))
