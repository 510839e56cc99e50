"""Digests of NumPy arrays: one number that tells, but for one case in 2^64, whether two arrays hold the same bits in the same order."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd import arrays
from dynograd.kernels.build.launches import unnoted
from dynograd.kernels.layout.copies_cpu import bits


def digest(array: Any) -> int:
    """Of all bits, in the order that the dims have in memory. Of equal shapes and strides only: others are not told apart."""
    order = arrays.order_of(array)
    words = bits(numpy.ascontiguousarray(array if order is None else array.transpose(order)).reshape(-1))
    if words.itemsize < 8 and not words.nbytes % 8 and not words.__array_interface__["data"][0] % 8:
        words = words.view(numpy.uint64)
    from dynograd.kernels.layout.digests_numba import BLOCK, sum_blocks

    sums = numpy.empty(-(-words.size // BLOCK), numpy.uint64)
    with unnoted():
        sum_blocks(words, sums, count=sums.size, work=words.size)
    return int(sums.sum())
