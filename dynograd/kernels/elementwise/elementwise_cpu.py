"""Elementwise kernels by op name, on NumPy arrays of one dtype: `name(input, ..., *statics)`.

What stands here is what a formula does not say, or NumPy's functions say faster; all others are made from the formulas of the table of ops
(`formulas_cpu`) at their first call. Half types come here as float32, integers as floats where the result is one.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.kernels.build.sizes import COMPILED_PASS, UFUNC
from dynograd.kernels.elementwise.formulas_cpu import kernel_of_formula
from dynograd.kernels.elementwise.ufuncs import FLAT, compiled, number, select
from dynograd.kernels.elementwise.ufuncs import gate as gate


def __getattr__(name: str) -> Any:
    """The kernel of an op that is not written out here."""
    kernel = None if name.startswith("__") else kernel_of_formula(name)
    if kernel is None:
        raise AttributeError(name)
    globals()[name] = kernel
    return kernel


def conj(input: Any) -> Any:
    return input.copy() if input.dtype.kind == "b" else numpy.conjugate(input)


# Their formulas are longer than NumPy's functions.
logaddexp = numpy.logaddexp
logaddexp2 = numpy.logaddexp2


def complex_logaddexp(input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other)) from the operand of the larger real part on; numpy's function has real numbers only.

    NaN in either part of an operand is NaN; of two operands that are infinite, the angle is that of the sum.
    """
    swap = other.real > input.real
    large, small = numpy.where(swap, other, input), numpy.where(swap, input, other)
    infinite = numpy.isinf(large.real) & (large.real == small.real)
    nothing = infinite & (large.real < 0)
    sums = large + complex_log1p(numpy.exp(numpy.where(infinite, 0, small - large)))
    sums = numpy.where(nothing, small, sums)
    endless = infinite & ~nothing
    if endless.any():
        sums = numpy.where(endless, numpy.log(numpy.exp(small) + numpy.exp(large)), sums)
    return numpy.where(numpy.isnan(input) | numpy.isnan(other), complex(numpy.nan, numpy.nan), sums).astype(
        sums.dtype, copy=False
    )


def complex_log1p(input: Any) -> numpy.ndarray:
    """log(1 + input); numpy's function loses the real part of small complex numbers."""
    real, imag = input.real, input.imag
    small = numpy.abs(input) < 0.5
    more = numpy.where(small, real * (2 + real) + imag * imag, 0)  # |1 + input| ** 2 - 1
    near = numpy.where(more == 0, real, numpy.log1p(more) / 2)
    result = numpy.empty(input.shape, input.dtype)
    result.real = numpy.where(small, near, numpy.log(numpy.hypot(1 + real, imag)))
    result.imag = numpy.arctan2(imag, 1 + real)
    return result


# The same.
isnan = numpy.isnan
isinf = numpy.isinf
isfinite = numpy.isfinite
logical_xor = numpy.logical_xor
where = select
zeroed = numpy.zeros_like


# --- rounding ----------------------------------------------------------------------------------------------------------------


def _leaving_integers(function: Any) -> Any:
    """Rounding functions leave integers as they are."""

    def rounded(input: Any) -> Any:
        return input.copy() if input.dtype.kind in "iub" else function(input)

    return rounded


floor = _leaving_integers(numpy.floor)
ceil = _leaving_integers(numpy.ceil)
trunc = _leaving_integers(numpy.trunc)
round = _leaving_integers(numpy.rint)


def round_decimals(input: Any, decimals: int) -> Any:
    scale = input.dtype.type(10.0 ** numpy.abs(decimals))
    return numpy.rint(input * scale) / scale if decimals > 0 else numpy.rint(input / scale) * scale


# --- division ----------------------------------------------------------------------------------------------------------------


def floor_divide(input: Any, other: Any) -> Any:
    return numpy.floor_divide(input, _divisor("floor_divide", input, other))


def trunc_divide(input: Any, other: Any) -> Any:
    if input.dtype.kind == "f":
        return numpy.trunc(input / other)
    quotient = numpy.floor_divide(input, _divisor("div", input, other))
    return quotient + ((quotient < 0) & (quotient * other != input)).astype(input.dtype)


def remainder(input: Any, other: Any) -> Any:
    return numpy.remainder(input, _divisor("remainder", input, other))


def fmod(input: Any, other: Any) -> Any:
    return numpy.fmod(input, _divisor("fmod", input, other))


def _divisor(who: str, input: Any, other: Any) -> Any:
    """`other`, when no integer is divided by 0. NumPy would give 0 there; only the values can tell."""
    if input.dtype.kind in "iu" and not (other.all() if getattr(other, "ndim", 0) else other):
        raise RuntimeError(
            f"{who}: ZeroDivisionError: integer division by 0. Use floating-point tensors, which give inf or nan."
        )
    return other


# --- powers and products -------------------------------------------------------------------------------------------------------


def pow(input: Any, other: Any) -> Any:
    if other.dtype.kind == "i" and (other < 0).any():
        # 1 / input**-other, rounded towards zero.
        power = numpy.power(input, numpy.abs(other))
        return numpy.where(other < 0, numpy.where(numpy.abs(power) == 1, power, power.dtype.type(0)), power)
    return numpy.power(input, other) if other.dtype.kind != "b" else input | ~other


def square(input: Any) -> Any:
    return numpy.square(input) if input.dtype.kind != "b" else input.astype(numpy.int64)


def scalar_power(input: Any, exponent: float) -> Any:
    if exponent == 3:
        return input * input * input
    if exponent == -1:
        return 1 / input
    if exponent == -2:
        return 1 / (input * input)
    if exponent == -0.5:
        return 1 / numpy.sqrt(input)
    return numpy.power(input, numpy.asarray(exponent, input.dtype))


def _number(value: Any, like: Any) -> Any:
    return numpy.asarray(value).astype(like.dtype)


def lerp(input: Any, end: Any, weight: Any) -> Any:
    """Counted from the nearer end, so that weights 0 and 1 give `input` and `end` exactly."""
    if weight.ndim == 0:
        if input.size >= UFUNC and input.shape == end.shape:
            function = FLAT["lerp"][input.dtype.char]
            if function is not None:
                return function(input, end, weight)
    way = end - input
    if weight.ndim == 0:
        if numpy.abs(weight) < 0.5:
            way *= weight
            way += input
            return way
        way *= 1 - weight
        return end - way
    return select(numpy.abs(weight) < 0.5, input + weight * way, end - way * (1 - weight))


# --- signs and special values ------------------------------------------------------------------------------------------------


def sign(input: Any) -> Any:
    """0 for NaN, as in PyTorch."""
    if input.dtype.kind != "f":
        return input.copy() if input.dtype.kind == "b" else numpy.sign(input)
    if input.size >= UFUNC and (function := FLAT["sign"][input.dtype.char]) is not None:
        return function(input)
    if input.ndim:
        signs = numpy.sign(input)
        flat = signs.reshape(-1)
        sizes = flat.dot(flat)
        if sizes != sizes:
            signs[signs != signs] = 0
        return signs
    return numpy.subtract(input > 0, input < 0, dtype=input.dtype)


def ge_half(input: Any, other: Any) -> Any:
    """1 for NaN too. Choices between numbers, which the formula has, take twice as long on some 1000 elements; so below."""
    less = (input < other).astype(input.dtype)
    same = (input == other).astype(input.dtype)
    return input.dtype.type(1) - less - same * input.dtype.type(0.5)


def heaviside(input: Any, values: Any) -> Any:
    """0 for NaN, as in PyTorch."""
    return select(input == 0, values, (input > 0).astype(input.dtype))


def nan_to_num(input: Any, nan: float, posinf: float, neginf: float) -> Any:
    if input.dtype.kind != "f":
        return input.copy()
    return numpy.nan_to_num(input, nan=nan, posinf=posinf, neginf=neginf)


def signbit(input: Any) -> Any:
    return numpy.signbit(input) if input.dtype.kind == "f" else input < 0


def tan(input: numpy.ndarray) -> numpy.ndarray:
    """float32 through float64, in which NumPy is as fast as others are in float32: its own float32 is 3.3 units off."""
    if input.dtype.char != "f":
        return numpy.tan(input)
    return numpy.tan(input, dtype=numpy.float64).astype(numpy.float32)


def sinc(input: Any) -> Any:
    return numpy.sinc(input).astype(input.dtype, copy=False)


# --- bounds ------------------------------------------------------------------------------------------------------------------


def clamp(input: Any, min: Any, max: Any) -> Any:
    """`max` wins where the two cross; NaN stays, and a NaN bound makes everything NaN."""
    if input.size >= UFUNC and min == min and max == max:
        function = FLAT["clamp"][char := input.dtype.char]
        if function is not None:
            low = -numpy.inf if min is None else min
            return function(input, number(low, char), number(numpy.inf if max is None else max, char))
    if input.size < COMPILED_PASS:
        bounded = input if min is None else numpy.maximum(input, _bound(min, input.dtype))
        return bounded if max is None else numpy.minimum(bounded, _bound(max, input.dtype))
    limits = (
        (-numpy.inf, numpy.inf)
        if input.dtype.kind == "f"
        else (numpy.iinfo(input.dtype).min, numpy.iinfo(input.dtype).max)
    )
    low, high = limits[0] if min is None else min, limits[1] if max is None else max
    return numpy.clip(input, _bound(low, input.dtype), _bound(high, input.dtype))


def _bound(value: Any, kind: Any) -> Any:
    """A bound in the dtype; one outside the range of an integer dtype is as good as the range's own."""
    key = (value, kind.char)
    bound = _bounds.get(key)
    if bound is None:
        if kind.kind in "iu":
            limits = numpy.iinfo(kind)
            value = limits.min if value < limits.min else limits.max if value > limits.max else value
        bound = numpy.asarray(value).astype(kind)
        if len(_bounds) < 100 and value:  # 0.0 and -0.0 are one key
            _bounds[key] = bound
    return bound


_bounds: dict[tuple, Any] = {}


def within(input: Any, min: Any, max: Any) -> Any:
    if min is None:
        return input <= max
    return input >= min if max is None else (input >= min) & (input <= max)


def softplus(input: Any, beta: float, threshold: float) -> Any:
    """As its formula has it, with a pass less where the choice is none: beyond 20 the bend is below float32's resolution."""
    scaled = input if beta == 1 else input * beta
    if input.dtype.char == "f":
        bent = number(0, "f") - compiled("logsigmoid", "f")(-scaled)
        if threshold >= 20:
            return bent if beta == 1 else bent / beta
    else:
        bent = numpy.log1p(numpy.exp(numpy.minimum(scaled, threshold)))
    return select(scaled > threshold, input, bent / beta)


def logsigmoid(input: Any) -> Any:
    """-log(1 + exp(-input)): compiled for float32, in two passes less than the formula has for others."""
    if input.dtype.char == "f":
        return compiled("logsigmoid", "f")(input)
    return numpy.minimum(input, 0) - numpy.log1p(numpy.exp(-numpy.abs(input)))
