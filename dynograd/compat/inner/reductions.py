"""`torch.nn._reduction`: the number or the word that stands for how a loss is reduced."""

from __future__ import annotations

import warnings

from dynograd.errors import user_level

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """0 for "none", 1 for "mean", 2 for "sum".

    Raises:
        ValueError: another word.

    >>> from dynograd.nn._reduction import get_enum
    >>> get_enum("sum")
    2
    """
    if reduction not in _NUMBERS:
        raise ValueError(f"get_enum: {reduction} is not a valid value for reduction: expected 'none', 'mean' or 'sum'.")
    return _NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The word for PyTorch's old pair of switches, of which None is True; says so in a warning."""
    word = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{word}' instead.",
            stacklevel=user_level(),
        )
    return word


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """`get_enum` of `legacy_get_string`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
