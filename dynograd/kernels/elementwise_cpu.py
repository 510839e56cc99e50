"""Elementwise kernels by op name, on NumPy arrays: `name(input, ..., out=None)`. Where NumPy has the ufunc, that is the kernel."""

from __future__ import annotations

from typing import Any

import numpy

add = numpy.add
sub = numpy.subtract
mul = numpy.multiply
div = numpy.true_divide
remainder = numpy.remainder
fmod = numpy.fmod
neg = numpy.negative
square = numpy.square
abs = numpy.absolute
sign = numpy.sign
conj = numpy.conjugate
maximum = numpy.maximum
minimum = numpy.minimum
exp = numpy.exp
log = numpy.log
sqrt = numpy.sqrt
tanh = numpy.tanh


def _same_dtype(function: Any) -> Any:
    """Rounding functions leave integers as they are."""

    def rounded(input: Any, out: Any = None) -> Any:
        if input.dtype.kind in "iub":
            return input.copy() if out is None else out
        return function(input, out=out)

    return rounded


floor = _same_dtype(numpy.floor)
ceil = _same_dtype(numpy.ceil)
trunc = _same_dtype(numpy.trunc)
round = _same_dtype(numpy.rint)


def pow(input: Any, other: Any, out: Any = None) -> Any:
    return numpy.power(input, other, out=out)


def scalar_power(input: Any, exponent: float, out: Any = None) -> Any:
    if exponent == 3:
        return numpy.multiply(input * input, input, out=out)
    if exponent == -1:
        return reciprocal(input, out=out)
    return numpy.power(input, numpy.asarray(exponent, input.dtype), out=out)


def reciprocal(input: Any, out: Any = None) -> Any:
    return numpy.true_divide(input.dtype.type(1), input, out=out)


def floor_divide(input: Any, other: Any, out: Any = None) -> Any:
    if input.dtype.kind == "f":
        return numpy.floor(input / other, out=out)
    return numpy.floor_divide(input, other, out=out)


def trunc_divide(input: Any, other: Any, out: Any = None) -> Any:
    if input.dtype.kind == "f":
        return numpy.trunc(input / other, out=out)
    quotient = numpy.floor_divide(input, other)
    quotient += ((quotient < 0) & (quotient * other != input)).astype(quotient.dtype)
    return quotient


def ge_half(input: Any, other: Any) -> Any:
    return (input > other).astype(input.dtype) + (input == other).astype(input.dtype) * input.dtype.type(0.5)
