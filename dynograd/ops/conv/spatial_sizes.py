"""Numbers per spatial dim, as convolutions, poolings and patches take them."""

from __future__ import annotations

from typing import Any

from dynograd.errors import ShapeError

__all__: list[str] = []


def per_dim(who: str, name: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """A number for each spatial dim, from one number or a sequence of 1 or `rank`; each at least `least`."""
    try:
        found = tuple([one.__index__() for one in (value if isinstance(value, (tuple, list)) else (value,))])
    except AttributeError:
        raise TypeError(f"{who}: {name} must be an int or a tuple of ints, got {value!r}.") from None
    if len(found) == 1:
        found = found * rank
    if len(found) != rank:
        raise ShapeError(
            f"{who}: expected {name} to be a single integer value or a list of {rank} values to match the convolution dimensions, but "
            f"got {name}={list(found)}."
        )
    if min(found) < least:
        what = "negative" if least == 0 else "non-positive"
        raise ShapeError(f"{who}: {what} {name} is not supported, got {list(found)}.")
    if max(found) >= 2**31:
        raise ShapeError(f"{who}: {name} does not fit into 32 bits, got {list(found)}.")
    return found


def by(sizes: Any) -> str:
    """`(3 x 7)`, as messages show sizes."""
    return f"({' x '.join(map(str, sizes))})"
