"""Sines and the like, and their inverses, in Triton's language: see `math_triton`."""

import triton
import triton.language as tl

from dynograd.kernels.formula.numbers_triton import copysign, polynomial, signbit, sqrt


@triton.jit
def sin(x):
    if x.dtype == tl.float64:
        return tl.sin(x)
    else:
        return tl.where(tl.abs(x) < 1e-4, x, tl.sin(x))


@triton.jit
def cos(x):
    return tl.cos(x)


@triton.jit
def tan(x):
    return sin(x) / cos(x)


@triton.jit
def _quarter_less(x):
    """pi / 2 - x."""
    if x.dtype == tl.float64:
        return (1.5707963267948966 - x) + 6.123233995736766e-17
    else:
        return (1.5707963267948966 - x) - 4.371139e-08


@triton.jit
def _half_less(x):
    """pi - x."""
    if x.dtype == tl.float64:
        return (3.141592653589793 - x) + 1.2246467991473532e-16
    else:
        return (3.141592653589793 - x) - 8.742278e-08


@triton.jit
def _atan_of_unit(x):
    """atan of 0 <= x <= 1."""
    upper = x > 0.4142135623730951
    t = tl.where(upper, (x - 1.0) / (x + 1.0), x)
    z = t * t
    if x.dtype == tl.float64:
        p = polynomial(z, (
            -0.013918229291024427, 0.030635704112969498, -0.04104436265755082, 0.04719395030027433,
            -0.05258041554297779, 0.058819252531928636, -0.06666642020055166, 0.07692306736000173,
            -0.0909090906700999, 0.11111111110754729, -0.14285714285711518, 0.19999999999999993, -0.3333333333333333
        ))  # fmt: skip
        p = t + t * z * p
        return tl.where(upper, (0.7853981633974483 + p) + 3.061616997868383e-17, p)
    else:
        p = polynomial(z, (
            -0.06451928208121749, 0.10743731490791084, -0.1426395559798464, 0.19999540483648964, -0.3333333176116852
        ))  # fmt: skip
        p = t + t * z * p
        return tl.where(upper, (0.7853981633974483 + p) - 2.1855695e-08, p)


@triton.jit
def atan(x):
    size = tl.abs(x)
    value = _atan_of_unit(tl.where(size > 1.0, 1.0 / size, size))
    return copysign(tl.where(size > 1.0, _quarter_less(value), value), x)


@triton.jit
def atan2(y, x):
    """The angle of (x, y)."""
    across = tl.abs(x)
    up = tl.abs(y)
    steep = up > across
    large = tl.where(steep, up, across)
    small = tl.where(steep, across, up)
    ratio = tl.where(large == 0, large, tl.where(small == float("inf"), 1.0, small / large))
    ratio = tl.where((x != x) | (y != y), float("nan"), ratio)
    value = _atan_of_unit(ratio)
    left = signbit(x)
    flat = tl.where(left, _half_less(value), value)
    upright = _quarter_less(tl.where(left, -value, value))  # pi less this angle would be rounded twice
    return copysign(tl.where(steep, upright, flat), y)


@triton.jit
def _asin_of_half(x, z):
    """asin of 0 <= x <= 1/2 whose square is z."""
    if x.dtype == tl.float64:
        p = polynomial(z, (
            0.02961201126495512, -0.01924167174674304, 0.019554513336123378, 0.0030448799094556773,
            0.009319560794767446, 0.009621842970100282, 0.011566459612121669, 0.01396378001220357,
            0.017352816540325496, 0.02237215744350722, 0.03038194447553234, 0.044642857142551895,
            0.07500000000000118, 0.16666666666666666
        ))  # fmt: skip
    else:
        p = polynomial(z, (
            0.03369084720283012, 0.017149238357677253, 0.03110066273549457, 0.04459940152851218, 0.07500094543497424,
            0.16666666337430908
        ))  # fmt: skip
    return x + x * z * p


@triton.jit
def asin(x):
    size = tl.abs(x)
    upper = size > 0.5
    z = tl.where(upper, 0.5 * (1.0 - size), size * size)
    value = _asin_of_half(tl.where(upper, sqrt(z), size), z)
    return copysign(tl.where(upper, _quarter_less(2.0 * value), value), x)


@triton.jit
def acos(x):
    size = tl.abs(x)
    upper = size > 0.5
    z = tl.where(upper, 0.5 * (1.0 - size), size * size)
    value = _asin_of_half(tl.where(upper, sqrt(z), size), z)
    beyond = tl.where(x < 0, _half_less(2.0 * value), 2.0 * value)
    return tl.where(upper, beyond, _quarter_less(copysign(value, x)))
