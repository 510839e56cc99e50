"""Large NumPy arrays in another dtype: on all threads, and float16 and bfloat16 by vector instructions where NumPy goes one by one."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import buffers
from dynograd.kernels.build import threads
from dynograd.kernels.build.sizes import CASTS
from dynograd.kernels.layout.copies_cpu import bits

_NUMBERS = frozenset("fdilqB?")


def to_float(array: Any, dtype: Any) -> Any:
    """A new array in a floating dtype; None where NumPy does it as quickly."""
    if array.size < CASTS or not array.flags.c_contiguous:
        return None
    source, target = (_kind(kind) for kind in (array.dtype, dtype))
    if source in _NUMBERS and source != target and target in "fd" and threads.parts(array.size) > 1:
        name = "convert"
    elif {source, target} == {"e", "f"}:
        name = "convert_half"
    elif {source, target} == {"bfloat16", "f"}:
        name = "narrow_bfloat16" if source == "f" else "widen_bfloat16"
    else:
        return None
    from dynograd.kernels.layout import casts_numba

    if name == "convert_half" and not casts_numba.HAS_HALF:
        return None
    result = buffers.empty(array.shape, dtype)
    into, of = result.reshape(-1), array.reshape(-1)
    if name == "convert_half":
        into, of = (bits(x) if x.itemsize == 2 else x for x in (into, of))
    elif name != "convert":
        into, of = bits(into), bits(of)
    getattr(casts_numba, name)(into, of, count=array.size, work=array.size)
    return result


def _kind(dtype: Any) -> str:
    return dtype.char if dtype.num < 256 else dtype.name  # a name takes NumPy 2 us
