"""The standard's dtypes, and questions about them."""

from __future__ import annotations

from typing import Any, NamedTuple

from dynograd.base import dtypes
from dynograd.base.dtypes import (
    bool,
    complex64,
    complex128,
    dtype,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from dynograd.base.hints import DeviceLike
from dynograd.compat.array_api.table import ops
from dynograd.tensor.tensor import Tensor

__all__ = [
    *"astype bool complex128 complex64 finfo float32 float64 iinfo int16 int32 int64 int8 isdtype".split(),
    *"uint16 uint32 uint64 uint8".split(),
]

KINDS: dict[str, tuple[dtype, ...]] = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64),
    "complex floating": (complex64, complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
_EXTRA = {"real floating": (dtypes.float16, dtypes.bfloat16), "numeric": (dtypes.float16, dtypes.bfloat16)}


class FloatLimits(NamedTuple):
    """What `finfo` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtypes.dtype


class IntegerLimits(NamedTuple):
    """What `iinfo` returns."""

    bits: int
    max: int
    min: int
    dtype: dtypes.dtype


def finfo(type: dtypes.dtype | Tensor, /) -> FloatLimits:
    """Limits of a floating dtype, or of a tensor's; of a complex one those of its parts.

    Args:
        type: a dtype or a tensor.
    Returns:
        An object with the limits.

    >>> xp.finfo(xp.float32).bits, xp.finfo(xp.complex128).dtype
    (32, dynograd.float64)
    """
    kind = _dtype_of(type)
    limits = dtypes.finfo(kind)
    return FloatLimits(limits.bits, limits.eps, limits.max, limits.min, limits.smallest_normal, kind.to_real())


def iinfo(type: dtypes.dtype | Tensor, /) -> IntegerLimits:
    """Limits of an integer dtype, or of a tensor's.

    Args:
        type: a dtype or a tensor.
    Returns:
        An object with the limits.

    >>> xp.iinfo(xp.uint16).max
    65535
    """
    kind = _dtype_of(type)
    limits = dtypes.iinfo(kind)
    return IntegerLimits(limits.bits, limits.max, limits.min, kind)


def isdtype(dtype: dtypes.dtype, kind: dtypes.dtype | str | tuple[Any, ...]) -> bool:
    """Whether `dtype` is of a kind: a dtype, a name ("integral", "real floating", ...), or a tuple of those.

    Args:
        dtype: a dtype.
        kind: a dtype, the name of a kind ("integral"), or a tuple of them.
    Returns:
        True or False.
    Raises:
        ValueError: a name that the standard does not have.

    >>> xp.isdtype(xp.int8, "integral"), xp.isdtype(xp.float32, ("bool", "complex floating"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any([isdtype(dtype, part) for part in kind])
    if not isinstance(kind, str):
        return dtype is kind
    if kind not in KINDS:
        raise ValueError(f"isdtype: expected one of {', '.join(map(repr, KINDS))}, got {kind!r}.")
    return dtype in KINDS[kind] or dtype in _EXTRA.get(kind, ())


def astype(x: Tensor, dtype: dtypes.dtype, /, *, copy: bool = True, device: DeviceLike = None) -> Tensor:
    """`x` in another dtype, and on another device if given; with `copy=False` the same tensor where nothing changes.

    Args:
        x: a tensor.
        dtype: of the result; by default that of the values.
        copy: True always copies, False never, None where it must.
        device: where it lies; the default device unless given.
    Returns:
        A tensor.

    >>> xp.astype(xp.asarray([1.5, -1.5]), xp.int8)
    tensor([ 1, -1], dtype=dynograd.int8)
    """
    return ops.to(x, device=device, dtype=dtype, copy=copy)


def _dtype_of(value: Any) -> dtypes.dtype:
    return value.dtype if isinstance(value, Tensor) else dtypes.as_dtype(value)
