"""Versions: of PyTorch, whose names and behaviour these are, and behind the `+` of dynograd; and which CUDA a build was made for: none.

Programs ask `torch.__version__` what they may use, so it says which PyTorch they may think they have: `2.13.0+dynograd.0.1.0`.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion", "__version__", "cuda", "debug", "dynograd_version", "git_version", "hip"]

dynograd_version = "0.1.0"
cuda: str | None = None
hip: str | None = None
debug = False
git_version = "unknown"


class TorchVersion(str):
    """A version as text that compares by its numbers, with texts and with tuples.

    >>> dynograd.__version__ >= "2.9", dynograd.__version__ >= (2, 10), dynograd.__version__ < "10"
    (True, True, True)
    """

    def __lt__(self, other: Any) -> bool:
        return _numbers(self) < _numbers(other)

    def __le__(self, other: Any) -> bool:
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other: Any) -> bool:
        return _numbers(self) > _numbers(other)

    def __ge__(self, other: Any) -> bool:
        return _numbers(self) >= _numbers(other)


def _numbers(version: Any) -> tuple[int, ...]:
    """The release: the numbers in front, without zeros at the end (2.0 is 2)."""
    if isinstance(version, str):
        match = re.match(r"v?(\d+(?:\.\d+)*)", version)
        if match is None:
            raise ValueError(f"version: expected numbers such as '2.13', got {str(version)!r}.")
        version = match[1].split(".")
    numbers = [int(part) for part in version if str(part).isdigit()]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


__version__ = TorchVersion(f"2.13.0+dynograd.{dynograd_version}")
