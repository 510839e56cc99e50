"""A program at new sizes put together of what it was at others: each kernel, array and check that follows one size alone was that before.

A step whose values say how many rows each of several parts gets hardly ever comes with the same numbers together, though each of them soon comes again.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from dynograd.plans.sized.calls import SizedCall
from dynograd.plans.sized.memory import Part
from dynograd.plans.sized.sizes import Number, Real
from dynograd.plans.sized.values import Nested

__all__ = ["Piece", "Splices"]

_MOST_PIECES = 1024


class Splices:
    """What of a program for several sizes follows which of them.

    Args:
        program: with all its numbers.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self.pieces: dict[tuple[int, int], Piece] = {}  # by (which size, how large)
        self.usable = True
        rows = [self._rows_of(bound) for bound in program.tables]
        lists = [self._by_size([self.sizes_of(value) for value in values]) for values in program.common_lists()]
        checks = self._by_size([self.sizes_of(vars(checked)) for checked in program.checked])
        ramps = self._by_size([self.sizes_of(ramp) for _, ramp in program.memory.extras.ramps])
        numbers = range(program.sizes.count())
        followed = [program.sizes.sizes_of(Number(number)) for number in numbers]
        if any([self.sizes_of(vars(call)) for call in program.apart]):
            self.usable = False
        self.parts = [
            _Part(
                [table[size] for table in rows],
                [places[size] for places in lists],
                [(program.checked[n].number, program.checked[n]) for n in checks[size]],
                [number for number in numbers if size in followed[number]],
                ramps[size],
            )
            for size in range(len(program.sizes.places) if self.usable else 0)
        ]

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
            row = bisect.bisect_right(begins, place) - 1
            followed[row] |= self.sizes_of(number)
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

    def sizes_of(self, value: Any) -> frozenset[int]:
        """Which of the sizes a value follows that is common to several programs."""
        known = self.program.sizes.sizes_of
        return frozenset().union(*[known(number) for number in _numbers_in(value)])

    def note(self, sizes: Sequence[int]) -> None:
        """Keeps what the program, which is of these sizes, has of each, in the order of their places."""
        for key in enumerate(sizes if self.usable else ()):
            piece = self.pieces.pop(key, None) or Piece(self.program, self.parts[key[0]], key[0])
            while len(self.pieces) >= _MOST_PIECES:
                del self.pieces[next(iter(self.pieces))]
            self.pieces[key] = piece

    def go(self, before: Sequence[int], own: Sequence[int], sizes: tuple[int, ...]) -> list[Piece] | None:
        """Makes the program, which is of the sizes `before`, one of others, and gives the pieces that it is others in; None: nothing is done."""
        if not self.usable:
            return None
        program = self.program
        changed = [size for size in range(len(own)) if own[size] != before[size]]
        parts = [self.parts[size] for size in changed]
        numbers = program.sizes.numbers(sizes, program.numbers, [place for part in parts for place in part.numbers])
        if numbers is None:
            return None
        program.numbers = numbers
        program.memory.extras.resize(numbers, [ramp for part in parts for ramp in part.ramps])
        pieces = [self.pieces.get((size, own[size])) for size in changed]
        if not all(pieces):
            words, nearest = numpy.array(numbers, numpy.int64), program.sizes.nearest(sizes)
            for bound in program.tables:
                bound.resize(words, nearest)
        lists = [list(values) for values in program.lists()]
        checks = dict(program.plain.checks)
        for part, piece in zip(parts, pieces):
            if piece is None:
                for values, at, places in zip(lists, program.values_at(numbers), part.places):
                    for place in places:
                        values[place] = at(place)
                checks |= {number: checked.at(numbers) for number, checked in part.checked}
                continue
            for bound, taken, rows in zip(program.tables, piece.tables, part.tables):
                bound.put(taken, *rows)
            for values, others, places in zip(lists, piece.lists, part.places):
                for place, other in zip(places, others):
                    values[place] = other
            checks |= piece.checks
        program.arrays, program.outside, program.seeds, program.gradients = lists
        program._set_checks(checks)
        self.note(own)
        return [self.pieces[size, own[size]] for size in changed]


@dataclass
class _Part:
    """What of a program follows one of the sizes."""

    tables: list[Any]  # of each table: the places of words, of data, and rows
    places: list[list[int]]  # of arrays, of tensors from outside, of seeds and of gradients
    checked: list[tuple[int, Any]]
    numbers: list[int]
    ramps: list[int]


class Piece:
    """What a program has of one size."""

    def __init__(self, program: Any, part: _Part, size: int) -> None:
        self.size = size
        self.tables = [bound.taken(*rows) for bound, rows in zip(program.tables, part.tables)]
        self.lists = [[values[place] for place in places] for values, places in zip(program.lists(), part.places)]
        self.checks = {number: program.plain.checks[number] for number, _ in part.checked}
        self.steps: Any = None  # what a way has made of it


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
