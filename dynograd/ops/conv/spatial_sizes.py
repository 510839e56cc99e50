"""Numbers per spatial dim, as convolutions, poolings and patches take them."""

from __future__ import annotations

from typing import Any

from dynograd.errors import ShapeError


def per_dim(who: str, name: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """A number for each spatial dim, from one number or a sequence of 1 or `rank`; each at least `least`."""
    try:
        result = tuple([size.__index__() for size in (value if isinstance(value, (tuple, list)) else (value,))])
    except AttributeError:
        raise TypeError(f"{who}: {name} must be an int or a tuple of ints, got {value!r}.") from None
    if len(result) == 1:
        result = result * rank
    if len(result) != rank:
        raise ShapeError(
            f"{who}: expected {name} to be a single integer value or a list of {rank} values to match the convolution dimensions, but "
            f"got {name}={list(result)}."
        )
    if min(result) < least:
        what = "negative" if least == 0 else "non-positive"
        raise ShapeError(f"{who}: {what} {name} is not supported, got {list(result)}.")
    if max(result) >= 2**31:
        raise ShapeError(f"{who}: {name} does not fit into 32 bits, got {list(result)}.")
    return result


def by(sizes: Any) -> str:
    """`(3 x 7)`, as messages show sizes."""
    return f"({' x '.join(map(str, sizes))})"
