"""Norms of NumPy arrays and the powers that their gradients are made of; half types in float32."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy

from dynograd.kernels.layout.copies_cpu import contiguous
from dynograd.kernels.reduce.blocks_cpu import reduced, suits
from dynograd.kernels.reduce.reductions_cpu import widened
from dynograd.kernels.small.few_cpu import differences

_TERMS: dict[float, str] = {0: "nonzero", 1: "size", 2: "square"}

_REAL = {"F": numpy.dtype(numpy.float32), "D": numpy.dtype(numpy.float64)}


def vector_norm_forward(input: Any, p: float, dim: Any, keepdim: bool) -> Any:
    wide = widened(input)
    if wide.dtype.kind == "f" and p in (0, 1, 2) and suits(wide, dim):
        result = reduced("sum", _TERMS[p], wide, dim, keepdim, wide.dtype)
        if p == 2:
            result = numpy.sqrt(result)
    elif p == 2:
        result = _euclidean(wide, dim, keepdim)
    elif p == inf:
        result = numpy.maximum.reduce(numpy.abs(wide), dim, None, None, keepdim)
    elif p == -inf:
        result = numpy.minimum.reduce(numpy.abs(wide), dim, None, None, keepdim)
    elif p == 0:
        result = numpy.add.reduce(wide != 0, dim, _REAL.get(wide.dtype.char, wide.dtype), None, keepdim)
    elif p == 1:
        result = numpy.add.reduce(numpy.abs(wide), dim, None, None, keepdim)
    else:
        with numpy.errstate(divide="ignore"):
            powers = numpy.power(numpy.abs(wide), p)
            result = numpy.power(numpy.add.reduce(powers, dim, None, None, keepdim), wide.real.dtype.type(1 / p))
    return contiguous(result.astype(_REAL.get(input.dtype.char, input.dtype), copy=False))


def distances(x1: Any, x2: Any) -> Any:
    """Between each row of one matrix and each of another."""
    apart = differences(x1, x2)
    return vector_norm_forward(numpy.subtract(x1[:, None], x2[None]) if apart is None else apart, 2, 2, False)


def _euclidean(wide: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None and not keepdim:
        flat = wide.reshape(-1)
        return numpy.sqrt(numpy.vdot(flat, flat).real)
    if wide.dtype.kind == "f" and dim == wide.ndim - 1 and wide.flags.c_contiguous:
        result = numpy.sqrt(numpy.vecdot(wide, wide))
        return result[..., None] if keepdim else result
    squares = numpy.square(wide) if wide.dtype.kind != "c" else wide.real**2 + wide.imag**2
    return numpy.sqrt(numpy.add.reduce(squares, dim, None, None, keepdim))


def renorm(input: Any, p: float, dims: tuple[int, ...], maxnorm: float) -> Any:
    """Slices whose norm over `dims` is above `maxnorm`, scaled down to it."""
    wide = numpy.ascontiguousarray(widened(input))  # PyTorch's result is row-major
    sizes = vector_norm_forward(wide, p, dims, True)
    scale = numpy.where(sizes > maxnorm, maxnorm / (sizes + sizes.dtype.type(1e-7)), sizes.dtype.type(1))
    return (wide * scale).astype(input.dtype, copy=False)


def absolute_power(input: Any, exponent: float) -> Any:
    """|input| ** exponent; where input is 0, 0 (and 1 when the exponent is 0)."""
    kind = _REAL.get(input.dtype.char, input.dtype)
    if exponent == 0:
        return numpy.ones(input.shape, kind)
    size = numpy.abs(widened(input))
    return _power_but_zero(size, exponent, size == 0).astype(kind, copy=False)


def signed_power(input: Any, exponent: float) -> Any:
    """The direction of `input` (its sign) times |input| ** exponent; where input is 0, 0."""
    if exponent == 1:
        return input
    if exponent == 0 and input.dtype.kind != "c":
        return numpy.sign(input)
    wide = widened(input)
    size = numpy.abs(wide)
    return (wide * _power_but_zero(size, exponent - 1, size == 0)).astype(input.dtype, copy=False)


def _power_but_zero(size: Any, exponent: float, zero: Any) -> Any:
    if exponent > 0:
        return numpy.power(size, size.dtype.type(exponent))
    size = numpy.where(zero, size.dtype.type(1), size)
    powers = 1 / size if exponent == -1 else numpy.power(size, size.dtype.type(exponent))
    return numpy.where(zero, powers.dtype.type(0), powers)
