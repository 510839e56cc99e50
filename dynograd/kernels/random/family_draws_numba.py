"""Derivatives of gamma numbers by their concentration, compiled.

F(a, x), the lower incomplete gamma function, is differentiated exactly: below a + 1 in its power series, above in its continued fraction
(the modified Lentz method in dual numbers), each divided by the density before anything can underflow.
Source: Figurnov, Mohamed, Mnih, Implicit reparameterization gradients, 2018, equation 5.
"""

from __future__ import annotations

import math

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.formula.special_numba import digamma

# Beyond this the series has thousands of terms; Wilson and Hilferty's cube is then exact to about 1e-5.
_MANY = 20000.0


@compiled(in_order=True)
def fill_gamma_derivatives(a, x, out):
    for i in range(out.size):
        out[i] = _derivative(a[i], x[i])


@compiled(in_order=True)
def _derivative(a, x):
    if not (x > 0.0 and a > 0.0) or math.isinf(x):
        return 0.0 if x == 0.0 else math.nan
    if a > _MANY:
        return _derivative_of_many(a, x)
    if x <= a + 1.0:
        return _derivative_by_series(a, x)
    return _derivative_by_fraction(a, x)


@compiled(in_order=True)
def _derivative_of_many(a, x):
    # x = a (1 - 1/(9a) + z / (3 sqrt a))**3 with z held
    cube = (x / a) ** (1.0 / 3.0)
    deviation = cube - 1.0 + 1.0 / (9.0 * a)  # z / (3 sqrt a)
    return cube**3 + 3.0 * a * cube**2 * (1.0 / (9.0 * a * a) - 0.5 * deviation / a)


@compiled(in_order=True)
def _derivative_by_series(a, x):
    # F = x**a e**-x / Gamma(a + 1) S, S = sum of x**n / ((a + 1) ... (a + n))
    term, slope = 1.0, 0.0  # the term and its derivative by a
    total, total_slope = 1.0, 0.0
    for n in range(1, 100000):
        ratio = x / (a + n)
        slope = slope * ratio - term * ratio / (a + n)
        term *= ratio
        total += term
        total_slope += slope
        if term < 1e-17 * total and abs(slope) <= 1e-17 * abs(total_slope):
            break
    return -(x / a) * (total * (math.log(x) - digamma(a + 1.0)) + total_slope)


@compiled(in_order=True)
def _derivative_by_fraction(a, x):
    # 1 - F = x**a e**-x / Gamma(a) h; every name_a is the derivative of the name by a
    b, b_a = x + 1.0 - a, -1.0
    c, c_a = 1e300, 0.0
    d = 1.0 / b
    d_a = -b_a * d * d
    h, h_a = d, d_a
    for n in range(1, 100000):
        numerator, numerator_a = -n * (n - a), float(n)
        b += 2.0
        low = numerator * d + b
        low_a = numerator_a * d + numerator * d_a + b_a
        d = 1.0 / low
        d_a = -low_a * d * d
        next_c = b + numerator / c
        next_c_a = b_a + numerator_a / c - numerator * c_a / c / c
        c, c_a = next_c, next_c_a
        step = c * d
        step_a = c_a * d + c * d_a
        h_a = h_a * step + h * step_a
        h *= step
        if (abs(step - 1.0) < 1e-16 and abs(step_a) * h <= 1e-16 * abs(h_a)) or n > 20000:
            break
    return x * (h * (math.log(x) - digamma(a)) + h_a)
