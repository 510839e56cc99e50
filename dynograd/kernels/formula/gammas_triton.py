"""The gamma function's relatives in Triton's language, computed in float64: see `math_triton`."""

import triton
import triton.language as tl

from dynograd.kernels.formula.exponentials_triton import log1p
from dynograd.kernels.formula.numbers_triton import polynomial, signbit


@triton.jit
def lgamma(x):
    """Logarithm of the absolute value of the gamma function."""
    if x.dtype == tl.float64:
        return _lgamma(x)
    else:
        return _lgamma(x.to(tl.float64)).to(tl.float32)


@triton.jit
def _lgamma(x):
    size = tl.abs(x)
    # below 8: down to 1.5 ... 2.5 by lgamma(y + 1) = log(y) + lgamma(y), and there (y - 2) P(y - 2)
    y = size
    product = size * 0.0 + 1.0
    for _ in range(6):
        above = (y >= 2.5) & (size < 8.0)
        y = tl.where(above, y - 1.0, y)
        product = tl.where(above, product * y, product)
    tiny = size < 0.5
    z = tl.where(tiny, size, tl.where(size < 1.5, size - 1.0, y - 2.0))
    z = tl.where(size < 8.0, z, 0.0)
    p = polynomial(z, (
        6.379047507619774e-08, -1.3412819758517287e-07, 2.0304806751615227e-07, -4.303558760359961e-07,
        9.578663334114758e-07, -2.0449201467015115e-06, 4.374374916915131e-06, -9.438458716242811e-06,
        2.050726741605779e-05, -4.4926351103833334e-05, 9.945750909889392e-05, -0.00022315475074520367,
        0.0005096695248853096, -0.0011927539120010226, 0.002890510330738737, -0.0073855510286681535,
        0.02058080842778457, -0.06735230105319814, 0.3224670334241132, 0.42278433509846713
    ))  # fmt: skip
    logarithm = tl.log(tl.where(tiny, size, tl.where(size < 8.0, product, size)))
    near = z * p + tl.where(tiny, -logarithm, logarithm) - tl.where(size < 1.5, log1p(z), 0.0)
    # Stirling's series
    over = 1.0 / size
    square = over * over
    s = polynomial(square, (
        -0.029550653594771242, 0.00641025641025641, -0.0019175269175269176, 0.0008417508417508417,
        -0.0005952380952380953, 0.0007936507936507937, -0.002777777777777778, 0.08333333333333333
    ))  # fmt: skip
    far = (size - 0.5) * (logarithm - 1.0) + (s * over + 0.4189385332046727)
    value = tl.where(size < 8.0, near, far)
    rest = size - tl.floor(size + 0.5)
    mirrored = tl.log(3.141592653589793 / (size * tl.abs(tl.sin(3.141592653589793 * rest)))) - value
    mirrored = tl.where(size < 1e-150, -tl.log(size), tl.where(rest == 0, float("inf"), mirrored))
    value = tl.where(x < 0, mirrored, value)
    return tl.where(size == float("inf"), size, value)


@triton.jit
def digamma(x):
    """The derivative of lgamma."""
    if x.dtype == tl.float64:
        return _digamma(x)
    else:
        return _digamma(x.to(tl.float64)).to(tl.float32)


@triton.jit
def _digamma(x):
    angle = 3.141592653589793 * (x - tl.floor(x + 0.5))
    total = tl.where(x < 0, -3.141592653589793 * tl.cos(angle) / tl.sin(angle), x * 0.0)
    y = tl.where(x < 0, 1.0 - x, x)
    for _ in range(10):
        low = y < 10.0
        total = tl.where(low, total - 1.0 / y, total)
        y = tl.where(low, y + 1.0, y)
    # log y - 1/2y - sum of B_2k / (2k y^2k)
    z = 1.0 / (y * y)
    s = polynomial(z, (
        0.08333333333333333, -0.021092796092796094, 0.007575757575757576, -0.004166666666666667,
        0.003968253968253968, -0.008333333333333333, 0.08333333333333333
    ))  # fmt: skip
    value = total + tl.log(y) - 0.5 / y - s * z
    value = tl.where(x == float("inf"), float("inf"), value)
    value = tl.where((x < 0) & (x == tl.floor(x)), float("nan"), value)
    return tl.where(x == 0, tl.where(signbit(x), float("inf"), -float("inf")), value)


@triton.jit
def polygamma(x, n):
    """The n-th derivative of digamma; n is a whole number, a scalar or a block, of any dtype."""
    wide = x.to(tl.float64)
    order = tl.zeros_like(wide) + n
    value = tl.where(order == 0, _digamma(wide), _polygamma(order, wide))
    return value.to(x.dtype)


@triton.jit
def _zeta(s, q):
    """Sum of (q + k)^-s over k >= 0 for q > 0, by Euler and Maclaurin after the first terms."""
    enough = tl.where(s > 2.0, s + 10.0, 12.0)
    left = enough - q
    # After 48 terms either the sum is complete, or what would follow is too small to count.
    terms = tl.max(tl.where(left > 0.0, tl.minimum(left + 1.0, 48.0), 0.0).to(tl.int32))
    total = q * 0.0
    for _ in range(terms):
        low = q < enough
        total = tl.where(low, total + tl.exp2(-s * tl.log2(q)), total)
        q = tl.where(low, q + 1.0, q)
    summed = total
    last = tl.exp2(-s * tl.log2(q))
    total += last * q / (s - 1.0) + 0.5 * last
    over = 1.0 / (q * q)
    factor = s * last / q
    total += factor * 0.08333333333333333
    factor *= (s + 1.0) * (s + 2.0) * over
    total += factor * -0.001388888888888889
    factor *= (s + 3.0) * (s + 4.0) * over
    total += factor * 3.306878306878307e-05
    factor *= (s + 5.0) * (s + 6.0) * over
    total += factor * -8.267195767195767e-07
    factor *= (s + 7.0) * (s + 8.0) * over
    total += factor * 2.08767569878681e-08
    factor *= (s + 9.0) * (s + 10.0) * over
    total += factor * -5.284190138687493e-10
    factor *= (s + 11.0) * (s + 12.0) * over
    total += factor * 1.3382536530684679e-11
    factor *= (s + 13.0) * (s + 14.0) * over
    return tl.where(q < enough, summed, total + factor * -3.3896802963225827e-13)


@triton.jit
def _whole_zeta(s, q, even):
    """For whole s, q of either sign: the terms below 0 are, mirrored, a difference of two such sums."""
    negative = q < 0
    rest = tl.where(negative, q - tl.floor(q), 0.5)
    mirrored = _zeta(s, 1.0 - rest) - _zeta(s, tl.where(negative, 1.0 - q, 0.5))
    return _zeta(s, tl.where(negative, rest, q)) + tl.where(even, mirrored, -mirrored) * negative.to(tl.float64)


@triton.jit
def zeta(x, q):
    """The sum of (q + k)**-x over k = 0, 1, ...: infinite at x = 1 and at whole q up to 0, NaN for x below 1."""
    s = x.to(tl.float64) + tl.zeros_like(q).to(tl.float64)
    place = q.to(tl.float64) + tl.zeros_like(x).to(tl.float64)
    whole = tl.floor(s) == s
    value = _whole_zeta(tl.where((s > 1.0) & (s < 1e6), s, 2.0), place, tl.floor(s * 0.5) * 2.0 == s)
    # Of so high powers only the largest counts: that of the number nearest to 0.
    rest = place - tl.floor(place)
    nearest = tl.where(place < 0, tl.minimum(rest, 1.0 - rest), place)
    value = tl.where(s < 1e6, value, tl.where(nearest == 1.0, 1.0, tl.exp2(-s * tl.log2(nearest))))
    value = tl.where(place == float("inf"), 0.0, tl.where((place < 0) & (whole == 0), float("nan"), value))
    value = tl.where((place <= 0) & (place == tl.floor(place)), float("inf"), value)
    value = tl.where(s > 1.0, value, tl.where(s == 1.0, float("inf"), float("nan")))
    return tl.where((place == place) | (s == 1.0), value, float("nan")).to(x.dtype)


@triton.jit
def _polygamma(n, x):
    s = n + 1.0
    odd = tl.floor(n * 0.5) * 2.0 != n
    factor = tl.where(odd, tl.exp(_lgamma(s)), -tl.exp(_lgamma(s)))
    down = tl.floor(x)
    value = _whole_zeta(s, x, odd)
    value = tl.where((x <= 0) & (x == down), float("inf"), value)
    value = tl.where(x == float("inf"), 0.0, tl.where((x != x) | (x == -float("inf")), float("nan"), value))
    return factor * value
