"""Numbers that follow from sizes: sums of products of sizes, cut off as in `n // 2`, rests as in `n % 8`, and bounds as in `min(n, 20)`."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dynograd.errors import ProgramError

__all__ = ["Factor", "SizeFormula", "Term"]

_MOST = 1 << 31
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True)
class Factor:
    """(size + plus) // over, cut off."""

    name: str
    plus: int = 0
    over: int = 1

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number at these sizes."""
        return (sizes[self.name] + self.plus) // self.over

    def __str__(self) -> str:
        text = f"({self.name}{_signed(self.plus)})" if self.plus else self.name
        return text if self.over == 1 else f"({text} // {self.over})"


@dataclass(frozen=True, slots=True)
class Term:
    """A product of sizes, or what is left of it over `modulo`, some times."""

    factors: tuple[Factor, ...]
    times: int = 1
    modulo: int = 0

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number at these sizes."""
        product = math.prod([factor.at(sizes) for factor in self.factors])
        return self.times * (product % self.modulo if self.modulo else product)

    def __str__(self) -> str:
        if len(self.factors) == 1 and self.factors[0].plus == self.modulo == 0 and self.times == 1:
            return str(self.factors[0]).strip("()")
        text = " * ".join(map(str, self.factors))
        text = f"({text} % {self.modulo})" if self.modulo else text
        return text if self.times == 1 else f"{self.times} * {text}"


@dataclass(frozen=True, slots=True)
class SizeFormula:
    """A number at any size: the sum of the terms and `plus`, at least `least` and at most `most`."""

    terms: tuple[Term, ...]
    plus: int = 0
    least: SizeFormula | None = None
    most: SizeFormula | None = None

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number at these sizes."""
        number = sum([term.at(sizes) for term in self.terms]) + self.plus
        if self.most is not None:
            number = min(number, self.most.at(sizes))
        return number if self.least is None else max(number, self.least.at(sizes))

    @property
    def is_product(self) -> bool:
        """Whether it is c m + d, where m is a size or a product of sizes."""
        parts = [(term.modulo, factor.over) for term in self.terms for factor in term.factors]
        return self.least is self.most is None and len(self.terms) == 1 and set(parts) == {(0, 1)}

    def __str__(self) -> str:
        text = " + ".join(map(str, self.terms)) + _signed(self.plus) if self.terms else str(self.plus)
        text = text if self.most is None else f"min({text}, {self.most})"
        return text if self.least is None else f"max({text}, {self.least})"

    def as_json(self) -> list[Any]:
        """Its JSON value."""
        terms = [
            [[[factor.name, factor.plus, factor.over] for factor in term.factors], term.times, term.modulo]
            for term in self.terms
        ]
        return [terms, self.plus, *[None if end is None else end.as_json() for end in (self.least, self.most)]]

    @classmethod
    def of_json(cls, value: Any, names: Collection[str]) -> SizeFormula:
        """Reads one.

        Args:
            value: what `as_json` gave.
            names: the sizes that there are.
        Raises:
            ProgramError: it is none.
        """
        return _read(_of_older(value), names, is_bound=False)


def _of_older(value: Any) -> Any:
    """What files of earlier versions hold, [[[name, plus], ...], times, plus, over], as it is written now."""
    match value:
        case [[[str(), int()], *_] as factors, times, plus, over]:
            return [[[[[*factor, over] for factor in factors], times, 0]], plus, None, None]
    return value


def _read(value: Any, names: Collection[str], is_bound: bool) -> SizeFormula:
    try:
        terms, plus, *ends = value
        parts = [(factors, times, modulo) for factors, times, modulo in terms]
        triples = [[(name, by, over) for name, by, over in factors] for factors, _, _ in parts]
        least, most = ends
    except (TypeError, ValueError):
        raise _damaged(value) from None
    numbers = [plus, *[number for _, times, modulo in parts for number in (times, modulo)]]
    numbers += [number for factors in triples for _, *pair in factors for number in pair]
    if not all([type(number) is int and abs(number) < _MOST for number in numbers]):
        raise _damaged(value)
    if not is_bound <= len(parts) + is_bound <= _MOST_PARTS or any(
        [not 0 < len(each) <= _MOST_PARTS for each in triples]
    ):
        raise _damaged(value)
    if not all([isinstance(name, str) and name in names and over > 0 for each in triples for name, _, over in each]):
        raise _damaged(value)
    if any([modulo < 0 for _, _, modulo in parts]) or (is_bound and (least is not None or most is not None)):
        raise _damaged(value)
    own = [
        Term(tuple([Factor(*triple) for triple in each]), times, modulo)
        for each, (_, times, modulo) in zip(triples, parts)
    ]
    bounds = [None if end is None else _read(end, names, is_bound=True) for end in (least, most)]
    return SizeFormula(tuple(own), plus, *bounds)


def _signed(number: int) -> str:
    return "" if not number else f" {'+-'[number < 0]} {abs(number)}"


def _damaged(value: Any) -> ProgramError:
    return ProgramError(
        f"load_program: expected a formula of sizes, got {str(value)[:80]}. The file is damaged, or of another dynograd: export it anew."
    )
