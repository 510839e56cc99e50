"""A number that tells tensors apart by their bits: `hash_tensor`."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import reduced_dims
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.elementwise.bits import bitwise_xor
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.layout.joins import cat
from dynograd.ops.layout.views import permuted, reshaped, view_as_dtype
from dynograd.ops.op import composed

__all__ = ["hash_tensor"]


@composed(method=True)
def hash_tensor(input: Any, dim: Any = None, *, keepdim: bool = False, mode: int = 0) -> Array:
    """The exclusive or of the bits of all elements over `dim`, each as float64 or int64: equal for equal elements in any order.

    Args:
        input: tensor of real numbers.
        dim: an int or several; None: all elements.
        keepdim: keep the reduced dims, with size 1.
        mode: 0, the only one there is.
    Returns:
        `input`'s shape without `dim`, uint64.
    Raises:
        ShapeError: no elements to reduce.
        DtypeError: complex numbers.

    >>> dynograd.hash_tensor(tensor([1, 2, 4]))
    tensor(7, dtype=dynograd.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: expected mode=0 (exclusive or), got {mode}. There is no other.")
    kind = dtypes.of_array(getattr(input, "array", input))
    if kind.category == dtypes.COMPLEX:
        raise DtypeError(f"hash_tensor: not for {kind}. Use view_as_real first.")
    shape = tuple(input.shape)
    dims = reduced_dims("hash_tensor", dim, len(shape))
    reduced = range(len(shape)) if dims is None else ((dims,) if isinstance(dims, int) else dims)
    if shape and 0 in [shape[dim] for dim in reduced]:
        raise ShapeError(f"hash_tensor: Expected reduction dim to have non-zero size, got shape {shape}.")
    kept = [dim for dim in range(len(shape)) if dim not in reduced]
    wide = convert(input, dtypes.float64 if kind.category == dtypes.FLOATING else dtypes.int64)
    bits = wide if wide.dtype in (dtypes.int64, dtypes.int64.numpy) else view_as_dtype(wide, dtypes.int64)
    count = prod([shape[dim] for dim in reduced])
    rows = reshaped(permuted(bits, (*reduced, *kept)), (count, *[shape[dim] for dim in kept]))
    while count > 1:  # halves against each other
        half = count // 2
        folded = bitwise_xor(get_basic(rows, (slice(0, half),)), get_basic(rows, (slice(half, 2 * half),)))
        rows = cat([folded, get_basic(rows, (slice(2 * half, None),))]) if count % 2 else folded
        count -= half
    result = tuple([1 if dim in reduced else size for dim, size in enumerate(shape)]) if keepdim else rows.shape[1:]
    return view_as_dtype(reshaped(rows, tuple(result)), dtypes.uint64)
