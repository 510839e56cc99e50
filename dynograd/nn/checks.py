"""Checks of what layers are built with: each raises with the layer's name, the argument, its value and what it may be."""

from __future__ import annotations

import operator
from typing import Any

from dynograd.errors import ShapeError

__all__ = ["check_flag", "check_number", "check_positive", "check_share", "check_sizes", "check_whole", "check_windows"]

_LEAST = {0: "must not be negative", 1: "must be positive"}


def check_sizes(who: str, least: int = 0, **sizes: Any) -> None:
    """Each is an integer of at least `least`.

    Raises:
        TypeError: not an integer.
        ShapeError: too small.
    """
    check_whole(who, **sizes)
    for name, value in sizes.items():
        if value < least:
            raise ShapeError(f"{who}: {name} {_LEAST[least]}, got {value}.")


def check_whole(who: str, **numbers: Any) -> None:
    """Each is an integer."""
    for name, value in numbers.items():
        if type(value) is not int:
            try:
                operator.index(value)
            except TypeError:
                raise TypeError(
                    f"{who}: {name} must be an integer, got {value!r} of type {type(value).__name__}."
                ) from None


def check_windows(who: str, rank: int, least: int = 1, **sizes: Any) -> None:
    """Each is None, an integer of at least `least`, or a tuple of `rank` of them (one in a tuple stands for all)."""
    for name, value in sizes.items():
        if isinstance(value, (tuple, list)):
            if len(value) not in (1, rank):
                many = f"{rank} numbers, one for each dimension" if rank > 1 else "one number"
                raise ShapeError(f"{who}: {name} must be an integer or {many}, got {len(value)}: {value!r}.")
            for place, size in enumerate(value):
                check_sizes(who, least, **{f"{name}[{place}]": size})
        elif value is not None:
            check_sizes(who, least, **{name: value})


def check_share(who: str, name: str, value: Any) -> None:
    """A probability: a number from 0 to 1.

    Raises:
        ValueError: outside, or NaN.
    """
    check_number(who, name, value)
    if not 0 <= value <= 1:
        raise ValueError(f"{who}: {name} has to be between 0 and 1, but got {value}.")


def check_positive(who: str, **numbers: Any) -> None:
    """Each is a number above 0."""
    for name, value in numbers.items():
        check_number(who, name, value)
        if not value > 0:
            raise ValueError(f"{who}: {name} must be positive, got {value}.")


def check_number(who: str, name: str, value: Any) -> None:
    """A real number."""
    try:
        float(value)
    except (TypeError, ValueError):
        value_is_number = False
    else:
        value_is_number = not isinstance(value, str)
    if not value_is_number:
        raise TypeError(f"{who}: {name} must be a number, got {value!r} of type {type(value).__name__}.")


def check_flag(who: str, **flags: Any) -> None:
    """Each is True or False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{who}: {name} should be of type bool, got: {value!r} of type {type(value).__name__}.")
