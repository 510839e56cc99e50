"""Whether sums into shared places must repeat bit for bit on a GPU, where threads otherwise add in the order in which they arrive.

On the CPU every result repeats already. Kernels ask `are_deterministic_algorithms_enabled()` when they choose how to add.
"""

from __future__ import annotations

from typing import Any

import numpy

__all__ = [
    "are_deterministic_algorithms_enabled",
    "filling",
    "is_deterministic_algorithms_warn_only_enabled",
    "use_deterministic_algorithms",
]

_wanted = _warn_only = False
fill_uninitialized_memory = True
"""Whether `empty`, `empty_like` and `empty_strided` give NaN, the largest integer or True while results must repeat; programs set it, as
`dynograd.utils.deterministic.fill_uninitialized_memory`, which is this module."""


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Makes `index_add`, `scatter_add`, gradients of `embedding` and their like repeat bit for bit on a GPU, at the price of a sort.

    Args:
        mode: True for results that repeat, False for the fastest.
        warn_only: accepted for PyTorch's sake; no op lacks a way that repeats.

    >>> dynograd.use_deterministic_algorithms(True)
    >>> dynograd.are_deterministic_algorithms_enabled()
    True
    >>> dynograd.use_deterministic_algorithms(False)
    """
    global _wanted, _warn_only
    _wanted, _warn_only = _truth(mode), _truth(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms(True)` holds.

    Returns:
        True or False.

    >>> dynograd.are_deterministic_algorithms_enabled()
    False
    """
    return _wanted


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was told `warn_only=True`.

    Returns:
        True or False.

    >>> dynograd.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _wanted and _warn_only


def filling(dtype: Any) -> float | None:
    """What memory is filled with that nothing has been written to, so that programs that read it by mistake repeat: NaN, the largest integer or
    True where results must repeat, None elsewhere."""
    if not (_wanted and fill_uninitialized_memory):
        return None
    kind = numpy.dtype(dtype).kind
    return True if kind == "b" else numpy.iinfo(dtype).max if kind in "iu" else numpy.nan


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"use_deterministic_algorithms: expected True or False, got {value!r}.")
    return value
