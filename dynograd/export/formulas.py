"""Numbers that follow from sizes: c (m + a) // k + d, where m is a size, or a product of sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynograd.errors import ProgramError

__all__ = ["SizeFormula"]

_MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class SizeFormula:
    """A number at any size.

    Args:
        factors: (name of a size, what is added to it) of each factor of m.
        times, plus: c and d.
        over: k; the product is divided by it, and cut off, before it is multiplied.
    """

    factors: tuple[tuple[str, int], ...]
    times: int
    plus: int
    over: int = 1

    def at(self, sizes: Mapping[str, int]) -> int:
        """The number at these sizes."""
        return math.prod([sizes[name] + by for name, by in self.factors]) // self.over * self.times + self.plus

    def __str__(self) -> str:
        text = " * ".join([name if not by else f"({name} {'+-'[by < 0]} {abs(by)})" for name, by in self.factors])
        if self.over > 1:
            text = f"{text} // {self.over}"
        if self.times != 1:
            text = f"{self.times} * {f'({text})' if self.over > 1 else text}"
        return text if not self.plus else f"{text} {'+-'[self.plus < 0]} {abs(self.plus)}"

    def as_json(self) -> list[Any]:
        """Its JSON value."""
        return [[list(factor) for factor in self.factors], self.times, self.plus, self.over]

    @classmethod
    def of_json(cls, value: Any, names: Any) -> SizeFormula:
        """Reads one.

        Args:
            value: what `as_json` gave.
            names: the sizes that there are.
        Raises:
            ProgramError: it is none.
        """
        try:
            factors, *numbers = value
            factors = tuple([(name, by) for name, by in factors])
            times, plus, over = numbers
        except (TypeError, ValueError):
            raise _damaged(value) from None
        integers = [*numbers, *[by for _, by in factors]]
        if not 0 < len(factors) <= 4 or not all([type(number) is int and abs(number) < _MOST for number in integers]):
            raise _damaged(value)
        if over < 1 or not all([isinstance(name, str) and name in names for name, _ in factors]):
            raise _damaged(value)
        return cls(factors, times, plus, over)


def _damaged(value: Any) -> ProgramError:
    return ProgramError(
        f"load_program: expected a formula of sizes, got {str(value)[:80]}. The file is damaged, or of another dynograd: export it anew."
    )
