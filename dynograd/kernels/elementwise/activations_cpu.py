"""Kernels of the activation functions. Those with exponentials of float32 are compiled; the rest is NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.kernels.elementwise.ufuncs import COMPOSED, FLAT, SMALL, compiled, select

__all__ = [
    "elu",
    "gelu",
    "gelu_backward",
    "gelu_tanh",
    "gelu_tanh_backward",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "sigmoid",
    "silu",
    "silu_backward",
    "softplus",
    "softshrink",
    "threshold",
]

_ZEROS = {letter: numpy.zeros((), letter) for letter in "fd"}  # NumPy takes arrays sooner than numbers
_ROOT_HALF = math.sqrt(0.5)
_ROOT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_DENSITY_0 = 1.0 / math.sqrt(2.0 * math.pi)
_CUBE = 0.044715


def relu(input: Any) -> Any:
    zero = _ZEROS.get(input.dtype.char, 0)
    if input.size < COMPOSED or type(zero) is int:
        return numpy.maximum(input, zero)
    return FLAT["relu"][input.dtype.char](input)


def between(input: Any, low: Any, high: Any) -> Any:
    """`input` between two numbers of its dtype; NumPy's clip is fast on large arrays, maximum and minimum on small ones."""
    if input.size < SMALL:
        return numpy.minimum(numpy.maximum(input, low), high)
    return numpy.clip(input, low, high)


def sigmoid(input: Any) -> Any:
    if input.dtype.char == "f":
        return compiled("sigmoid", "f")(input)
    if input.dtype.kind == "c":  # no exponential of a large number: inf + inf j divided is NaN
        small = numpy.exp(numpy.where(input.real > 0, -input, input))
        return numpy.where(input.real > 0, 1, small) / (1 + small)
    return 1 / (1 + numpy.exp(-input))


def silu(input: Any) -> Any:
    if input.dtype.char == "f":
        return compiled("silu", "f")(input)
    return input * sigmoid(input)


def silu_backward(input: Any, other: Any) -> Any:
    if input.dtype.char == "f":
        return compiled("silu_backward", "ff")(_unit(input), other)
    s = sigmoid(other)
    return input * s * (1 + other * (1 - s))


def gelu(input: Any) -> Any:
    if input.dtype.char == "f":
        return compiled("gelu", "f")(input)
    return input * (0.5 * compiled("erfc", "d")(input * -_ROOT_HALF))


def gelu_backward(input: Any, other: Any) -> Any:
    if input.dtype.char == "f":
        return compiled("gelu_backward", "ff")(_unit(input), other)
    below = 0.5 * compiled("erfc", "d")(other * -_ROOT_HALF)
    return input * (below + other * _DENSITY_0 * numpy.exp(-0.5 * other * other))


def gelu_tanh(input: Any) -> Any:
    if input.dtype.char == "f":
        return compiled("gelu_tanh", "f")(input)
    return 0.5 * input * (1 + numpy.tanh(_ROOT_2_OVER_PI * (input + _CUBE * input * input * input)))


def gelu_tanh_backward(input: Any, other: Any) -> Any:
    if input.dtype.char == "f":
        return compiled("gelu_tanh_backward", "ff")(_unit(input), other)
    bent = numpy.tanh(_ROOT_2_OVER_PI * (other + _CUBE * other * other * other))
    slope = _ROOT_2_OVER_PI * (1 + 3 * _CUBE * other * other)
    return 0.5 * input * (1 + bent + other * (1 - bent * bent) * slope)


def _unit(array: Any) -> Any:
    """A copy of an array that repeats along its last dim (the gradient of a sum): compiled loops want unit strides."""
    return array.copy() if array.ndim and not array.strides[-1] else array


def elu(input: Any, alpha: float, scale: float, input_scale: float) -> Any:
    low = numpy.minimum(_ZEROS.get(input.dtype.char, 0), input)  # in this order -0 stays -0
    bent = numpy.expm1(low if input_scale == 1 else low * input_scale) * (alpha * scale)
    return select(input > 0, input if scale == 1 else input * scale, bent)


def leaky_relu(input: Any, negative_slope: float) -> Any:
    if 0 < negative_slope <= 1:
        return numpy.maximum(input, input * negative_slope)
    return select(input > 0, input, input * negative_slope)


def prelu(input: Any, weight: Any) -> Any:
    return select(input > 0, input, input * weight)


def softplus(input: Any, beta: float, threshold: float) -> Any:
    scaled = input if beta == 1 else input * beta
    if threshold >= 20 and input.dtype.char == "f":  # beyond 20 the bend is below float32's resolution
        bent = between(scaled, 0, math.inf) + numpy.log1p(numpy.exp(-numpy.abs(scaled)))
        return bent if beta == 1 else bent / beta
    bent = numpy.log1p(numpy.exp(between(scaled, -math.inf, threshold))) / beta
    return select(scaled > threshold, input, bent)


def logsigmoid(input: Any) -> Any:
    return between(input, -math.inf, 0) - numpy.log1p(numpy.exp(-numpy.abs(input)))


def mish(input: Any) -> Any:
    return input * numpy.tanh(softplus(input, 1.0, 20.0))


def hardtanh(input: Any, min_val: float, max_val: float) -> Any:
    return between(input, numpy.asarray(min_val).astype(input.dtype), numpy.asarray(max_val).astype(input.dtype))


def hardsigmoid(input: Any) -> Any:
    return between(input + 3, 0, 6) / 6


def hardswish(input: Any) -> Any:
    return input * between(input + 3, 0, 6) / 6


def hardshrink(input: Any, lambd: float) -> Any:
    return select((input >= -lambd) & (input <= lambd), input.dtype.type(0), input)


def softshrink(input: Any, lambd: float) -> Any:
    """`input - clamp(input, -lambd, lambd)`; NaN stays, infinities too."""
    return input - between(input, -lambd, lambd)


def threshold(input: Any, threshold: float, value: float) -> Any:
    return select(input <= threshold, numpy.asarray(value).astype(input.dtype), input)
