"""Complex NumPy arrays made of their parts, and taken apart without a copy."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dynograd import arrays
from dynograd.arrays import buffers

_NUMBERS = {"f": np.dtype(np.complex64), "d": np.dtype(np.complex128)}


def from_parts(real, imag):
    """real + i * imag, two real arrays of one shape and dtype."""
    kind = _NUMBERS.get(real.dtype.char) or np.result_type(real.dtype, np.complex64)
    if real.flags.c_contiguous:
        result = buffers.empty(real.shape, kind)
    else:
        result = arrays.in_order(lambda shape: buffers.empty(shape, kind), real.shape, arrays.order_of(real, imag))
    result.real, result.imag = real, imag
    return result


def polar(size, turn):
    """Of sizes and angles of one shape and dtype, row-major."""
    result = np.empty(size.shape, _NUMBERS[size.dtype.char])
    np.multiply(size, np.cos(turn), out=result.real)
    np.multiply(size, np.sin(turn), out=result.imag)
    return result


def view_as_real(x):
    """The memory of `x` with real and imaginary parts along a new last dim."""
    parts = x.real
    return as_strided(parts, (*x.shape, 2), (*x.strides, parts.itemsize))


def view_as_complex(x):
    """The memory of pairs along the last dim read as complex numbers; a copy where it does not lie so."""
    item = x.itemsize
    kind = np.result_type(x.dtype, np.complex64)
    if x.size and (x.strides[-1] != item or any([step % (2 * item) for step in x.strides[:-1]])):
        return from_parts(x[..., 0], x[..., 1])
    if not x.size:
        return np.zeros(x.shape[:-1], kind)
    if x.flags.c_contiguous:
        return x.view(kind).reshape(x.shape[:-1])
    first = x[(0,) * (x.ndim - 1)].view(kind)
    return as_strided(first, x.shape[:-1], x.strides[:-1])


def angle(x):
    """The angle of complex numbers."""
    return np.arctan2(x.imag, x.real)


def modulus(x):
    """The absolute value of complex numbers."""
    return np.abs(x)
