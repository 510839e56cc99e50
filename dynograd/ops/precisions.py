"""Half types computed in float32 by composed functions: widened on the way in, narrowed on the way out."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.errors import DtypeError
from dynograd.ops.layout.broadcasting import convert


def widened(input: Any) -> Array:
    """`input` in float32 when it is of a half type, else itself."""
    return convert(input, dtypes.float32) if getattr(input, "array", input).dtype.itemsize == 2 else input


def narrowed(out: Any, like: Any) -> Array:
    """`out` in the dtype of `like`."""
    kind = dtypes.of_array(getattr(like, "array", like))
    return out if getattr(out, "array", out).dtype.num == kind.num else convert(out, kind)


def check_floating(who: str, input: Any) -> None:
    """Raises `DtypeError` for integers and bools."""
    array = getattr(input, "array", input)
    if array.dtype.kind in "iub":
        raise DtypeError(
            f"{who}: not implemented for {dtypes.of_array(array)}: expected a floating dtype. Use input.float()."
        )
