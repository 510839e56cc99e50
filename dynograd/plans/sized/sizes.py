"""Numbers of a step as formulas of the sizes of its arguments: found from the steps recorded at some sizes, used at sizes between those.

A formula is c m + d with whole numbers c and d, where m is a size or a product of sizes (n, b n, (n - 1) (n - 1)). It must give the number of every
recorded step. It is used only where each size, and each product of sizes, lies between recorded ones, a size at a distance from them that is a multiple
of what their distances have in common: numbers that are cut off (the first 16 of n) or rounded up (n in eights) have no such formula at three sizes, or
one that holds between them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dynograd.plans.sized.marks import Static

__all__ = ["FEWEST", "LEAST", "NoFormula", "Number", "Real", "Sizes", "at", "flat_sizes"]

FEWEST = 3  # steps that a formula is found from
_MOST_FACTORS = 3
_MOST_SIZES = 12  # of which numbers may be products: there are as many formulas as their cube
_SHIFTS = (-1, 1, -2, 2)
LEAST = 2  # fewer rows have steps of their own: one is no loop for many kernels


class NoFormula(Exception):
    """A number that differs among the recorded steps is none of the formulas."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number that differs from size to size: its place among those that `Sizes.numbers` gives."""

    place: int


def at(number: int | Number, numbers: Sequence[int]) -> int:
    """The number at sizes that have these numbers."""
    return int(numbers[number.place]) if isinstance(number, Number) else number


@dataclass(frozen=True, slots=True)
class Real:
    """A floating number that is a whole one, or one part of a whole one."""

    whole: int | Number
    is_share: bool

    def at(self, numbers: Sequence[int]) -> float:
        number = float(at(self.whole, numbers))
        return 1.0 / number if self.is_share else number


class Sizes:
    """The sizes of the arguments of some recorded steps, and the formulas of their numbers.

    Args:
        samples: of each step, in the order of `flat_sizes`; at least `FEWEST`, all of one length.
        idle: the places of those that may be any, and that no formula is found from.
        wide: the places of those that may come to lie beyond the samples': see `corners`. No number is a product of two of them.
        least: what these may be at least, if that is less than in all samples.
    Raises:
        NoFormula: fewer than two of them differ.
    """

    def __init__(
        self,
        samples: Sequence[tuple[int, ...]],
        idle: Sequence[int] = (),
        wide: Sequence[int] = (),
        least: int = LEAST,
    ) -> None:
        self.samples, self.idle = list(samples), idle
        columns = list(zip(*samples))
        self.places: list[int] = []  # of the sizes that differ, each kind once
        self.alike: list[tuple[int, int]] = []  # sizes that are another one
        self.fixed: list[tuple[int, int]] = []  # (place, size) of the others
        for place, column in enumerate(columns):
            if place in idle:
                continue
            if len(set(column)) == 1:
                self.fixed.append((place, column[0]))
            else:
                known = next((other for other in self.places if columns[other] == column), None)
                if known is None:
                    self.places.append(place)
                else:
                    self.alike.append((place, known))
        if len(samples) < FEWEST or not self.places:
            raise NoFormula("too few sizes")
        self.ranges = [
            (min(columns[place]), max(columns[place]), math.gcd(*[size - columns[place][0] for size in columns[place]]))
            for place in self.places
        ]
        self.rooms = [(low, high) for low, high, _ in self.ranges]  # what memory has room for
        for place in wide:
            if place in self.places:
                number = self.places.index(place)
                low, high, step = self.ranges[number]
                far = high + high // 2
                # At distances that have nothing in common with the others': then numbers that are rounded are told apart.
                self.rooms[number] = min(low, least), far + ((far - low) % step == 0) * (step > 1)
        apart = {number for number, place in enumerate(self.places) if place in wide}
        if len(self.places) - len(apart) > _MOST_SIZES:
            raise NoFormula(f"more than {_MOST_SIZES} sizes that differ")
        self.factors = [
            factors
            for factors in _products(len(self.places))
            if len(apart.intersection([factor for factor, _ in factors])) < 2
        ]
        self._of_samples = [self._products_of(self.own(sample)) for sample in samples]
        self._between = [(min(column), max(column)) for column in zip(*self._of_samples)]
        self._reaches = (
            False  # from the least sizes together to the largest together, so that products lie between as well
        )
        self._known: dict[tuple[int, ...], Number] = {}
        self._formulas: list[list[tuple[int, int, int]]] = []  # (product, c, d), each of which fits

    def number(self, values: Sequence[int]) -> int | Number:
        """The number that is `values[k]` in the step k.

        Raises:
            NoFormula: nothing fits.
        """
        first = values[0]
        if all([value == first for value in values]):
            return first
        key = tuple(values)
        known = self._known.get(key)
        if known is None:
            fitting = [fit for fit in map(self._fit, range(len(self.factors)), itertools.repeat(key)) if fit]
            if not fitting:
                raise NoFormula(f"numbers {key} at sizes {self.samples}")
            known = self._known[key] = Number(len(self._formulas))
            self._formulas.append(fitting)
        return known

    def real(self, values: Sequence[float]) -> float | Real:
        """The same of floating numbers.

        Raises:
            NoFormula: nothing fits.
        """
        first = values[0]
        if all([value == first or (value != value and first != first) for value in values]):
            return first
        if all([math.isfinite(value) for value in values]):
            if all([value == int(value) for value in values]):
                return Real(self.number([int(value) for value in values]), False)
            if all([0 < abs(value) < 1 and 1.0 / round(1.0 / value) == value for value in values]):
                return Real(self.number([round(1.0 / value) for value in values]), True)
        raise NoFormula(f"numbers {values} at sizes {self.samples}")

    def fits(self, sizes: tuple[int, ...]) -> bool:
        """Whether these sizes, and their products, lie between those of the samples."""
        if len(sizes) != len(self.samples[0]):
            return False
        if any([sizes[place] != size for place, size in self.fixed]) or any(
            [sizes[place] != sizes[other] for place, other in self.alike]
        ):
            return False
        own = self.own(sizes)
        if any([(size - low) % step or not low <= size <= high for size, (low, high, step) in zip(own, self.ranges)]):
            return False
        return self._reaches or all(
            [low <= product <= high for product, (low, high) in zip(self._products_of(own), self._between)]
        )

    def corners(self) -> list[tuple[int, ...]]:
        """The least sizes that memory has room for, and the largest, where these are others than the samples'."""
        if self.rooms == [(low, high) for low, high, _ in self.ranges]:
            return []
        corners = []
        for end in range(2):
            corner = list(self.samples[0])
            for place, room in zip(self.places, self.rooms):
                corner[place] = room[end]
            for place, other in self.alike:
                corner[place] = corner[other]
            corners.append(tuple(corner))
        return corners

    def reach(self, corners: Sequence[tuple[int, ...]]) -> None:
        """The formulas hold at these sizes as well, as if steps of them had been recorded."""
        columns = zip(*[self.own(corner) for corner in corners])
        self.ranges = [
            (min(low, *column), max(high, *column), math.gcd(step, *[size - low for size in column]))
            for (low, high, step), column in zip(self.ranges, columns)
        ]
        self._reaches = True

    def without_idle(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The same sizes, with those in idle places as they are in the first sample."""
        if not self.idle:
            return sizes
        first = self.samples[0]
        return tuple([first[place] if place in self.idle else size for place, size in enumerate(sizes)])

    def nearest(self, sizes: tuple[int, ...]) -> int:
        """The number of the sample that is most like these sizes."""
        distances = [sum([abs(size - own) for size, own in zip(sizes, sample)]) for sample in self.samples]
        return distances.index(min(distances))

    def numbers(
        self, sizes: tuple[int, ...], before: Sequence[int] | None = None, places: Sequence[int] = ()
    ) -> list[int] | None:
        """All numbers at these sizes, which fit, in the order of their places; None where several formulas fit one and differ here.

        Args:
            before: the numbers at other sizes, of which only those at `places` are others now.
        """
        own = self.own(sizes)
        products: dict[int, int] = {}
        numbers = [0] * len(self._formulas) if before is None else list(before)
        for place in range(len(numbers)) if before is None else places:
            values = set()
            for product, c, d in self._formulas[place]:
                if product not in products:
                    products[product] = _product(own, self.factors[product])
                values.add(c * products[product] + d)
            if len(values) > 1:
                return None
            numbers[place] = values.pop()
        return numbers

    def count(self) -> int:
        """How many numbers differ from size to size."""
        return len(self._formulas)

    def formulas(self, number: Number) -> Iterator[tuple[list[tuple[int, int]], int, int]]:
        """The formulas of a number, the simplest first: (place of a size, what is added to it) of each factor of m, and c and d of c m + d."""
        for product, c, d in self._formulas[number.place]:
            yield [(self.places[factor], by) for factor, by in self.factors[product]], c, d

    def own(self, sizes: Sequence[int]) -> list[int]:
        """Those at `places`."""
        return [sizes[place] for place in self.places]

    def sizes_of(self, number: Number) -> frozenset[int]:
        """Which of the sizes at `places` it follows."""
        return frozenset(
            [factor for product, _, _ in self._formulas[number.place] for factor, _ in self.factors[product]]
        )

    def largest(self, number: int | Number) -> int:
        """The most that a number can be between the samples."""
        if not isinstance(number, Number):
            return number
        is_rising = min([low for low, _ in self.rooms]) >= -min(_SHIFTS)  # products are largest where all sizes are
        corners = list(zip(*self.rooms)) if is_rising else list(itertools.product(*self.rooms))
        return max(
            [
                c * _product(corner, self.factors[product]) + d
                for corner in corners
                for product, c, d in self._formulas[number.place]
            ]
        )

    def _products_of(self, sizes: list[int]) -> list[int]:
        return [_product(sizes, factors) for factors in self.factors]

    def _fit(self, product: int, values: tuple[int, ...]) -> tuple[int, int, int] | None:
        known = [(products[product], value) for products, value in zip(self._of_samples, values)]
        (m, value), other = known[0], next((pair for pair in known if pair[0] != known[0][0]), None)
        if other is None or (other[1] - value) % (other[0] - m):
            return None
        c = (other[1] - value) // (other[0] - m)
        d = value - c * m
        return (product, c, d) if c and all([c * m + d == value for m, value in known]) else None


def _product(sizes: Sequence[int], factors: tuple[tuple[int, int], ...]) -> int:
    return math.prod([sizes[factor] + by for factor, by in factors])


def _products(count: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Factors: (which size, what is added to it). In products one size may be a little shorter or longer than the argument."""
    for number in range(1, _MOST_FACTORS + 1):
        for factors in itertools.combinations_with_replacement(range(count), number):
            yield tuple([(factor, 0) for factor in factors])
            for shifted in sorted(set(factors)) if number > 1 else ():
                for by in _SHIFTS:
                    yield tuple([(factor, by if factor == shifted else 0) for factor in factors])


def flat_sizes(sizes: tuple) -> tuple[tuple[int, ...], tuple]:
    """The numbers of nested sizes, in order, and how they were nested; those that stay are a part of that."""
    numbers: list[int] = []

    def nested(parts: tuple) -> tuple:
        form: list[Any] = []
        for part in parts:
            if isinstance(part, tuple):
                form.append(nested(part))
            elif type(part) is Static:
                form.append(part)
            else:
                numbers.append(part)
                form.append(None)
        return tuple(form)

    form = nested(sizes)
    return tuple(numbers), form
