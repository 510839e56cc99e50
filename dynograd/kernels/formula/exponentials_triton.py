"""Exponentials, logarithms, hyperbolic functions and powers in Triton's language: see `math_triton`."""

import triton
import triton.language as tl

from dynograd.kernels.formula.numbers_triton import bits_of, copysign, neg, polynomial, scaled, signbit, sqrt, two_to


@triton.jit
def exp(x):
    if x.dtype == tl.float64:
        return tl.exp(x)
    else:
        x = tl.where(x > 89.0, 89.0, tl.where(x < -104.0, -104.0, x))
        n = tl.floor(x * 1.4426950408889634 + 0.5)
        rest = (x - n * 0.693359375) + n * 2.12194440e-4
        return scaled(tl.exp2(rest * 1.4426950408889634), n)


@triton.jit
def exp2(x):
    if x.dtype == tl.float64:
        return tl.exp2(x)
    else:
        x = tl.where(x > 129.0, 129.0, tl.where(x < -151.0, -151.0, x))
        n = tl.floor(x + 0.5)
        return scaled(tl.exp2(x - n), n)


@triton.jit
def expm1(x):
    if x.dtype == tl.float64:
        power = tl.exp(x)
        below = power - 1.0
        value = tl.where(below == -1.0, below, below * (x / tl.log(power)))
        value = tl.where(x > 50.0, power, value)
        return tl.where(power == 1.0, x, value)
    else:
        # e^x - 1 = 2 (h p + (h - 1/2)) with h = 2^(n - 1) and p = e^rest - 1
        bounded = tl.where(x > 89.0, 89.0, tl.where(x < -20.0, -20.0, x))
        n = tl.floor(bounded * 1.4426950408889634 + 0.5)
        rest = (bounded - n * 0.693359375) + n * 2.12194440e-4
        p = polynomial(rest, (
            0.00019890980869750327, 0.0013933641031986701, 0.008333310934448869, 0.04166646500604005,
            0.16666666681614256, 0.5000000013457727
        ))  # fmt: skip
        p = rest + rest * rest * p
        half = two_to(n - 1.0, x)
        return tl.where(x == 0, x, 2.0 * (p * half + (half - 0.5)))


@triton.jit
def log(x):
    if x.dtype == tl.float64:
        return tl.log(x)
    else:
        small = tl.abs(x) < 1.17549435e-38
        return tl.log(tl.where(small, x * 16777216.0, x)) - tl.where(small, 16.635532333438686, 0.0)


@triton.jit
def log2(x):
    if x.dtype == tl.float64:
        return tl.log2(x)
    else:
        small = tl.abs(x) < 1.17549435e-38
        return tl.log2(tl.where(small, x * 16777216.0, x)) - tl.where(small, 24.0, 0.0)


@triton.jit
def log10(x):
    if x.dtype == tl.float64:
        return tl.log(x) * 0.4342944819032518
    else:
        return (tl.log(x.to(tl.float64)) * 0.4342944819032518).to(tl.float32)  # so that powers of 10 give whole numbers


@triton.jit
def log1p(x):
    """log(1 + x), where what 1 + x has lost is made good (Kahan)."""
    above = 1.0 + x
    lost = above - 1.0
    value = tl.where(lost == 0, x, log(above) * (x / lost))
    return tl.where(x == float("inf"), x, value)


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + exp(-x))


@triton.jit
def tanh(x):
    size = tl.abs(x)
    size = tl.where(size > 22.0, 22.0, size)
    t = expm1(2.0 * size)
    return copysign(t / (t + 2.0), x)


@triton.jit
def sinh(x):
    size = tl.abs(x)
    t = expm1(size)
    root = exp(0.5 * size)
    value = tl.where(size > 20.0, (0.5 * root) * root, 0.5 * (t + t / (t + 1.0)))
    return copysign(value, x)


@triton.jit
def cosh(x):
    size = tl.abs(x)
    root = exp(0.5 * size)
    power = exp(size)
    return tl.where(size > 20.0, (0.5 * root) * root, 0.5 * power + 0.5 / power)


@triton.jit
def _far(x):
    """From here on sqrt(x * x + 1) is x."""
    if x.dtype == tl.float64:
        return x > 1e9
    else:
        return x > 1e4


@triton.jit
def asinh(x):
    size = tl.abs(x)
    square = size * size
    near = log1p(size + square / (1.0 + sqrt(1.0 + square)))
    return copysign(tl.where(_far(size), log(size) + 0.6931471805599453, near), x)


@triton.jit
def acosh(x):
    above = x - 1.0
    near = tl.where(x < 1.0, float("nan"), log1p(above + sqrt(above * (x + 1.0))))
    return tl.where(_far(x), log(x) + 0.6931471805599453, near)


@triton.jit
def atanh(x):
    size = tl.abs(x)
    return copysign(0.5 * log1p(2.0 * size / (1.0 - size)), x)


@triton.jit
def power(x, y):
    """x to the y. Floats as C's pow; whole numbers wrap around, and negative powers are those of 1 and -1, and 0."""
    if x.dtype.is_floating():
        size = tl.abs(x)
        if x.dtype == tl.float64:
            value = _power_of(size, y)
        else:
            value = tl.exp2(y.to(tl.float64) * tl.log2(size.to(tl.float64))).to(tl.float32)
        whole = (tl.floor(y) == y) | (y != y)
        odd = whole & (tl.floor(y * 0.5) * 2.0 != y)
        value = tl.where((size == 1.0) & (tl.abs(y) == float("inf")), 1.0, value)
        value = tl.where((x < 0) & (size < float("inf")) & (whole == 0), float("nan"), value)
        value = tl.where(odd & signbit(x), neg(value), value)
        return tl.where((y == 0) | (x == 1.0), 1.0, value)
    else:
        result = x * 0 + 1
        base = x
        rest = tl.where(y < 0, 0, y)
        for _ in range(64):
            result = tl.where((rest & 1) != 0, result * base, result)
            base = base * base
            rest = rest >> 1
        inverse = tl.where(
            x == 1, x, tl.where((x < 0) & (x * x == 1) & (x + 1 == 0), tl.where((y & 1) != 0, x, -x), x * 0)
        )
        return tl.where(y < 0, inverse, result)


@triton.jit
def _top(x):
    """The upper 21 digits."""
    return (bits_of(x) & -4294967296).to(tl.float64, bitcast=True)


@triton.jit
def _power_of(x, y):
    """x ** y of float64 x >= 0, as in fdlibm: log2(x) in two parts, with products that are exact."""
    simple = tl.exp2(y * tl.log2(x))
    usual = (x > 0) & (x < float("inf")) & (tl.abs(y) < float("inf"))
    y = tl.where(tl.abs(y) > 3.6893488147419103e19, copysign(y * 0.0 + 3.6893488147419103e19, y), y)
    small = x < 2.2250738585072014e-308
    bits = bits_of(tl.where(small, x * 9007199254740992.0, x))
    n = (bits >> 52) - 1023 - tl.where(small, 53, 0)
    digits = (bits >> 32) & 0xFFFFF
    middle = (digits > 0x3988E) & (digits < 0xBB67A)
    upper = digits >= 0xBB67A
    n = (n + upper.to(tl.int64)).to(tl.float64)
    bits = (bits & 0xFFFFFFFFFFFFF) | tl.where(upper, 0x3FE0000000000000, 0x3FF0000000000000)
    x = bits.to(tl.float64, bitcast=True)
    near = tl.where(middle, 1.5, 1.0).to(tl.float64)
    u = x - near
    v = 1.0 / (x + near)
    s = u * v
    s_high = _top(s)
    t_high = _top(x + near)
    t_low = x - (t_high - near)
    s_low = v * ((u - s_high * t_high) - s_high * t_low)
    z = s * s
    r = polynomial(z, (
        2.06975017800338417784e-01, 2.30660745775561754067e-01, 2.72728123808534006489e-01,
        3.33333329818377432918e-01, 4.28571428578550184252e-01, 5.99999999999994648725e-01
    ))  # fmt: skip
    r = z * z * r + s_low * (s_high + s)
    z = s_high * s_high
    t_high = _top(3.0 + z + r)
    t_low = r - ((t_high - 3.0) - z)
    u = s_high * t_high
    v = s_low * t_high + t_low * s
    p_high = _top(u + v)
    p_low = v - (p_high - u)
    z_high = 9.61796700954437255859e-01 * p_high
    zero = z_high * 0.0
    extra_high = tl.where(middle, zero + 5.84962487220764160156e-01, zero)
    extra_low = tl.where(middle, zero + 1.35003920212974897128e-08, zero)
    z_low = -7.02846165095275826516e-09 * p_high + p_low * 9.61796693925975554329e-01 + extra_low
    log_high = _top(((z_high + z_low) + extra_high) + n)
    log_low = z_low - (((log_high - n) - extra_high) - z_high)
    y_high = _top(y)
    p_low = (y - y_high) * log_high + y * log_low
    p_high = y_high * log_high
    whole = p_low + p_high
    beyond = tl.abs(whole) > 1100.0
    n = tl.where(beyond, zero, tl.floor(whole + 0.5))
    p_high = tl.where(beyond, zero, p_high - n)
    p_low = tl.where(beyond, zero, p_low)
    t = _top(p_low + p_high)
    u = t * 6.93147182464599609375e-01
    v = (p_low - (t - p_high)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09
    z = u + v
    w = v - (z - u)
    t = z * z
    r = polynomial(t, (
        4.13813679705723846039e-08, -1.65339022054652515390e-06, 6.61375632143793436117e-05,
        -2.77777777770155933842e-03, 1.66666666666666019037e-01
    ))  # fmt: skip
    r = z - t * r
    r = (z * r) / (r - 2.0) - (w + z * w)
    value = scaled(1.0 - (r - z), n)
    return tl.where(usual & (beyond == 0), value, simple)
