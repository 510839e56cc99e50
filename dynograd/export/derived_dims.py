"""Sizes that follow from another dim: `past + 1`, `2*half`. Axes are called by that text, and sizes are known of the dim alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["DerivedSize", "derived"]

_TEXT = re.compile(r"(?:(\d{1,9})\s*\*\s*)?([^\W\d]\w*)(?:\s*([+-])\s*(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class DerivedSize:
    """times * root + plus.

    Args:
        root: the name of the dim.
        times, plus: whole numbers; 1 and 0: the size of the dim itself.
    """

    root: str
    times: int = 1
    plus: int = 0

    def at(self, sizes: Mapping[str, int]) -> int:
        """The size, where dims have these."""
        return self.times * sizes[self.root] + self.plus

    def root_of(self, size: int) -> int | None:
        """The size of the dim where this one is `size`; None: there is none."""
        root, rest = divmod(size - self.plus, self.times)
        return None if rest else root

    def __str__(self) -> str:
        text = self.root if self.times == 1 else f"{self.times}*{self.root}"
        return f"{text} {'+-'[self.plus < 0]} {abs(self.plus)}" if self.plus else text


@functools.lru_cache(1024)
def derived(text: str) -> DerivedSize | None:
    """Reads "2*n + 1"; None: it is none."""
    match = _TEXT.fullmatch(text)
    if match is None or (match[1] and not int(match[1])):
        return None
    return DerivedSize(match[2], int(match[1] or 1), int(f"{match[3] or '+'}{match[4] or 0}"))
