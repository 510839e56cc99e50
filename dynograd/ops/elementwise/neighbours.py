"""The next number that a floating dtype can hold: `nextafter`, on the bits of the numbers."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.errors import DtypeError
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.comparisons import isfinite, isnan
from dynograd.ops.layout.broadcasting import broadcast_tensors, convert
from dynograd.ops.layout.views import view_as_dtype
from dynograd.ops.op import composed

__all__ = ["nextafter"]

_WORDS = {2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


@composed(method=True, inplace=True, tensors="input other")
def nextafter(input: Any, other: Any) -> Array:
    """The number next to `input` on the way to `other`; `other` where the two are equal, NaN where one is NaN.

    The gradient goes to `input` where it is moved, as it is.

    Args:
        input, other: floating tensors; they broadcast.
    Returns:
        A tensor of the broadcast shape.
    Raises:
        DtypeError: tensors that are not floating.

    >>> dynograd.nextafter(tensor([1.0]), tensor([2.0])) - 1 == dynograd.finfo(dynograd.float32).eps
    tensor([True])
    """
    kind = dtypes.result_dtype(*[getattr(operand, "array", operand) for operand in (input, other)])
    if kind.category != dtypes.FLOATING:
        raise DtypeError(f"nextafter: expected floating tensors, got {kind}. Convert first, e.g. input.float().")
    operands, y = broadcast_tensors(convert(input, kind), convert(other, kind))
    word = _WORDS[kind.itemsize]
    bits, sign = view_as_dtype(operands, word), view_as_dtype(y, word) & dtypes.iinfo(word).min
    x, y = view_as_dtype(bits, kind), view_as_dtype(view_as_dtype(y, word), kind)  # without gradient
    away = (y > x) == (x > 0)  # further from zero: the bits of a float's size count upwards
    stepped = view_as_dtype(where(x == 0, sign + 1, bits + where(away, 1, -1).to(word)), kind)
    result = where(isnan(x) | isnan(y), x + y, where(x == y, y, stepped))
    exact = isfinite(x) & isfinite(result) & (result != 0) & (x != y)  # x + (made - x) is made, to the sign of a zero
    return where(exact, operands + (result - x), result)
