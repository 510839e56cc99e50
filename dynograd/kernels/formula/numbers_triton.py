"""What numbers are made of, and simple functions of them, in Triton's language: see `math_triton`."""

import triton
import triton.language as tl


@triton.jit
def bits_of(x):
    if x.dtype == tl.float64:
        return x.to(tl.int64, bitcast=True)
    else:
        return x.to(tl.int32, bitcast=True)


@triton.jit
def two_to(n, x):
    """2 ** n in the dtype of x, for whole n of a normal result."""
    if x.dtype == tl.float64:
        return ((n.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    else:
        return ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def scaled(x, n):
    """x * 2 ** n for whole n, in two steps, so that neither factor overflows and results may be subnormal."""
    half = tl.floor(n * 0.5)
    return x * two_to(half, x) * two_to(n - half, x)


@triton.jit
def high_part(x):
    """The upper half of the digits of x: products of such numbers are exact."""
    if x.dtype == tl.float64:
        return (bits_of(x) & -134217728).to(tl.float64, bitcast=True)
    else:
        return (bits_of(x) & -4096).to(tl.float32, bitcast=True)


@triton.jit
def polynomial(x, COEFFICIENTS: tl.constexpr):
    """By Horner's rule; the coefficient of the highest power comes first."""
    value = x * COEFFICIENTS[0] + COEFFICIENTS[1]
    for place in tl.static_range(2, len(COEFFICIENTS)):
        value = value * x + COEFFICIENTS[place]
    return value


@triton.jit
def isnan(x):
    return x != x


@triton.jit
def isinf(x):
    if x.dtype.is_floating():
        return tl.abs(x) == float("inf")
    else:
        return x != x


@triton.jit
def isfinite(x):
    if x.dtype.is_floating():
        return tl.abs(x) < float("inf")
    else:
        return x == x


@triton.jit
def signbit(x):
    if x.dtype.is_floating():
        return bits_of(x) < 0
    else:
        return x < 0


@triton.jit
def copysign(x, y):
    """|x| with the sign of y, both of one dtype."""
    if x.dtype == tl.float64:
        return ((bits_of(x) & 0x7FFFFFFFFFFFFFFF) | (bits_of(y) & -0x8000000000000000)).to(tl.float64, bitcast=True)
    else:
        return ((bits_of(x) & 0x7FFFFFFF) | (bits_of(y) & -0x80000000)).to(tl.float32, bitcast=True)


@triton.jit
def neg(x):
    """-x; Triton's own minus is 0 - x, which makes 0 of 0."""
    if x.dtype == tl.float64:
        return (bits_of(x) ^ -0x8000000000000000).to(tl.float64, bitcast=True)
    elif x.dtype.is_floating():
        return (bits_of(x) ^ -0x80000000).to(tl.float32, bitcast=True)
    else:
        return (0 - x).to(x.dtype)


@triton.jit
def abs(x):
    return tl.abs(x)


@triton.jit
def sign(x):
    """-1, 0 or 1; 0 for NaN."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def max(x, y):
    """The larger one; NaN when either is."""
    return tl.where((x > y) | (x != x), x, y)


@triton.jit
def min(x, y):
    return tl.where((x < y) | (x != x), x, y)


@triton.jit
def fmax(x, y):
    """The larger one; the other one when one is NaN."""
    return tl.where((x >= y) | (y != y), x, y)


@triton.jit
def fmin(x, y):
    return tl.where((x <= y) | (y != y), x, y)


@triton.jit
def floor(x):
    if x.dtype == tl.float32:  # a GPU takes subnormal numbers for 0 here
        bits = bits_of(x)
        return tl.where((bits > -2147483648) & (bits < -2139095040), -1.0, tl.floor(x))
    elif x.dtype.is_floating():
        return tl.floor(x)
    else:
        return x


@triton.jit
def ceil(x):
    if x.dtype == tl.float32:
        bits = bits_of(x)
        return tl.where((bits > 0) & (bits < 8388608), 1.0, tl.ceil(x))
    elif x.dtype.is_floating():
        return tl.ceil(x)
    else:
        return x


@triton.jit
def trunc(x):
    if x.dtype.is_floating():
        return tl.where(x < 0, tl.ceil(x), tl.floor(x))
    else:
        return x


@triton.jit
def round(x):
    """To the nearest whole number, halves to even: adding a number whose last digit is 1 rounds, subtracting it is exact."""
    if x.dtype == tl.float64:
        size = tl.abs(x)
        return tl.where(size < 4503599627370496.0, copysign((size + 4503599627370496.0) - 4503599627370496.0, x), x)
    elif x.dtype.is_floating():
        size = tl.abs(x)
        return tl.where(size < 8388608.0, copysign((size + 8388608.0) - 8388608.0, x), x)
    else:
        return x


@triton.jit
def sqrt(x):
    if x.dtype == tl.float64:
        return tl.sqrt(x)
    else:
        return tl.sqrt_rn(x)


@triton.jit
def hypot(x, y):
    """sqrt(x * x + y * y) without overflow in between; infinite when either is, whatever the other."""
    x = tl.abs(x)
    y = tl.abs(y)
    large = tl.where(x > y, x, y)
    ratio = tl.where(x > y, y, x) / large
    value = tl.where(large == 0, large + x, large * sqrt(1.0 + ratio * ratio))
    return tl.where((x == float("inf")) | (y == float("inf")), float("inf"), value)
