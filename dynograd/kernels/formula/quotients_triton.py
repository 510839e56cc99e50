"""Rests of divisions and common divisors in Triton's language: see `math_triton`."""

import triton
import triton.language as tl

from dynograd.kernels.formula.numbers_triton import bits_of, copysign, scaled, two_to


@triton.jit
def fmod(x, y):
    """The rest of the division rounded towards 0, exactly; 0 for whole numbers divided by 0."""
    if x.dtype.is_floating():
        if x.dtype == tl.float64:
            rest = _fmod_wide(x, y)
        else:
            rest = _fmod_narrow(x, y)
        rest = tl.where(tl.abs(x) < tl.abs(y), x, rest)
        return tl.where((tl.abs(x) == float("inf")) | (y == 0) | (x != x) | (y != y), float("nan"), copysign(rest, x))
    else:
        if y.dtype.is_int_signed():
            safe = tl.where((y == 0) | (y == -1), 1, y).to(y.dtype)
        else:
            safe = tl.where(y == 0, 1, y).to(y.dtype)
        return tl.where(y == 0, 0, x % safe).to(x.dtype)


@triton.jit
def _fmod_narrow(x, y):
    """Of float32, in float64, where 29 digits of the quotient at a time are exact."""
    fine = (tl.abs(x) < float("inf")) & (y != 0) & (y == y)
    a = tl.where(fine, tl.abs(x), 0.0).to(tl.float64)
    b = tl.where(fine & (tl.abs(y) < float("inf")), tl.abs(y), 1.0).to(tl.float64)
    steps = tl.max((bits_of(a / b) >> 52) - 1023) // 28 + 1
    for _ in range(steps):
        excess = (bits_of(a / b) >> 52) - 1023 - 28
        part = b * two_to(tl.where(excess > 0, excess, 0), b)
        a -= tl.floor(a / part) * part
        a = tl.where(a < 0, a + part, a)
        a = tl.where(a >= part, a - part, a)
    return a.to(tl.float32)


@triton.jit
def _fmod_wide(x, y):
    """Of float64, by whole numbers, 10 digits of the quotient at a time."""
    fine = (tl.abs(x) < float("inf")) & (y != 0) & (y == y) & (tl.abs(x) >= tl.abs(y))
    a = tl.where(fine, tl.abs(x), x * 0.0 + 1.0)
    a = tl.where(a == a, a, 1.0)
    b = tl.where(fine, tl.abs(y), 1.0)
    a_small = a < 2.2250738585072014e-308
    b_small = b < 2.2250738585072014e-308
    a_bits = bits_of(tl.where(a_small, a * 18014398509481984.0, a))
    b_bits = bits_of(tl.where(b_small, b * 18014398509481984.0, b))
    b_power = (b_bits >> 52) - tl.where(b_small, 54, 0)
    left = (a_bits >> 52) - tl.where(a_small, 54, 0) - b_power
    divisor = (b_bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    rest = ((a_bits & 0xFFFFFFFFFFFFF) | 0x10000000000000) % divisor
    steps = (tl.max(left) + 9) // 10
    for _ in range(steps):
        shift = tl.where(left > 10, 10, left)
        rest = (rest << shift) % divisor
        left -= shift
    return scaled(rest.to(tl.float64), (b_power - 1075).to(tl.float64))


@triton.jit
def mod(x, y):
    """The rest of the division rounded down: it has the sign of y."""
    rest = fmod(x, y)
    other = (rest != 0) & ((rest < 0) != (y < 0))
    if x.dtype.is_floating():
        return tl.where(other, rest + y, tl.where(rest == 0, copysign(rest, y), rest))
    else:
        return tl.where(other, rest + y, rest).to(x.dtype)


@triton.jit
def floor_divide(x, y):
    """The division rounded down, from the rest; 0 for whole numbers divided by 0."""
    rest = fmod(x, y)
    other = (rest != 0) & ((rest < 0) != (y < 0))
    if x.dtype.is_floating():
        if x.dtype == tl.float32:
            quotient = tl.div_rn(x - rest, y)
        else:
            quotient = (x - rest) / y
        quotient = tl.where(other, quotient - 1.0, quotient)
        whole = tl.floor(quotient)
        whole = tl.where(quotient - whole > 0.5, whole + 1.0, whole)
        whole = tl.where(quotient == 0, copysign(quotient, x / y), whole)
        return tl.where(y == 0, x / y, whole)
    else:
        if y.dtype.is_int_signed():
            safe = tl.where((y == 0) | (y == -1), 1, y).to(y.dtype)
        else:
            safe = tl.where(y == 0, 1, y).to(y.dtype)
        quotient = tl.where(y < 0, tl.where(y + 1 == 0, 0 - x, x // safe), x // safe)
        return tl.where(y == 0, 0, quotient - other.to(x.dtype)).to(x.dtype)


@triton.jit
def gcd(x, y):
    """The greatest common divisor of whole numbers, by Euclid; 92 steps are enough for 64 bits."""
    a = tl.abs(x)
    b = tl.abs(y)
    for _ in range(92):
        done = b == 0
        rest = a % tl.where(done, 1, b).to(b.dtype)
        a = tl.where(done, a, b)
        b = tl.where(done, b, rest)
    return tl.abs(a)


@triton.jit
def lcm(x, y):
    """The least common multiple, 0 when either is 0."""
    divisor = gcd(x, y)
    return tl.abs(x) // tl.where(divisor == 0, 1, divisor).to(x.dtype) * tl.abs(y)
