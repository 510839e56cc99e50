"""The error function, the normal distribution, and gates made of it: functions that vectorise inside Numba kernels.

Errors in float32: `erf` 2 units in the last place; `normal_cdf` 10 for x > -3 and a relative 5e-6 below. `normal_gate` and
`normal_gate_slope` (gelu and its derivative) do without an exponential and without a division. Import it on first use.

How the gates are computed. For a = |x| let q be what x < 0 has as the factor of x in the gate: q(a) = erfc(a / sqrt(2)) / 2, or the
slope q(a) = erfc(a / sqrt(2)) / 2 - a pdf(a). For x > 0 it is then 1 - q. Eighth roots of q flatten: q = (1 - d)^8 / 2 with
d = a (S0 + ... + S7 a^7), and of the slope q = (1/2 - K a) (1 - d)^8, as it has one root, at a = 1 / (2 K), with
d = a (W0 + ... + W8 a^8). d reaches 1 near a = 7.9 (7.6) and is 1 from there on, so q is 0. The power is taken as
1 - (1 - d)^2 = d (2 - d), twice, and a square of the rest: with (1 - d) itself the rounding errors near 0 would be eight times as
large.

The coefficients are minimax: a linear program over Chebyshev points of 0 < a < 5.4 (5.8) that minimises the largest error of q,
divided by q / 1e-4 where q < 1e-4, with d > 1 beyond 8; coefficients were rounded to float32 one after the other, lowest first, and
the rest fitted again. The error of q left over is 9.2e-9 (4.7e-8), divided likewise in the tail. Measured in float32 over -8 < x < 8:

    normal_gate        x > 0: 3 units in the last place, x > -1: 4.5; relative 2e-6 at x > -2, 1e-5 at -3, 2e-4 at -4, 4e-4 at -5;
                       absolute 1.2e-10 below -5.5, where 0.5 x (1 + erf(x / sqrt(2))) has no digit left
    normal_gate_slope  x > 0: 2.5 units; absolute 1.2e-7 for x < 0, 8e-8 below -3, 4e-8 below -4, 1e-9 below -5.5; relative 1e-4 at
                       -4, 1e-3 at -5.5

NaN stays NaN; at infinity the gate is infinity, at -infinity NaN, and the slope NaN at both, as the formulas have it (inf * 0).
"""

import math

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.formula.math_numba import _exp_series, _power_and_rest, _two_to
from dynograd.kernels.formula.scalars_numba import in_float32, polynomial

__all__ = ["erf", "normal_cdf", "normal_gate", "normal_gate_slope", "normal_pdf"]

_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_EXP_NORMAL = np.float32(-87.33654)

# erf(x) is x + x P(x^2) within 1.1, relative error 5e-9, and 1 - (1 - d)^8 with d = x Q(x) up to 3.95, relative error 8e-9; beyond, it rounds to 1.
_ERF_MAX = np.float32(3.95)
_ERF_BEND = np.float32(1.1)
_erf_near = polynomial(
    7.2360686e-05, -7.8247394e-04, 5.167731e-03, -2.6843518e-02, 1.1283364e-01, -3.761261e-01, 1.2837917e-01
)
_root_of_erfc = polynomial(
    -2.3768227e-05, 1.4444352e-04, 9.4192364e-04, -8.612159e-03, 4.2140284e-03, 6.841759e-02, 1.413379e-01
)

# erfc(z) exp(z^2) = t (C0 + C1 t + ... + C7 t^7) with t = 1 / (1 + 0.33 z), relative error 1.2e-7 for 0 <= z <= 10.5 (a minimax fit).
_DENSITY_0 = np.float32(0.3989422804014327)
_T = np.float32(0.33 * math.sqrt(0.5))
_normal_tail = polynomial(
    -0.13447191281237797 / 2, 0.45656701050732623 / 2, -0.3447400144272293 / 2, 0.4024806205893668 / 2,
    0.05049583954520539 / 2, 0.20019356794272947 / 2, 0.18312915415057063 / 2, 0.18634581215444151 / 2
)  # fmt: skip

# Of the gates: see the top.
_root_of_gate = polynomial(
    3.273712e-07, -8.195355e-06, 6.574825e-05, -3.691398e-05, -1.6423366e-03, 7.3538284e-04, 3.4816112e-02, 9.973548e-02
)
_root_of_slope = polynomial(
    2.8800018e-08, -3.697734e-07, -1.4896083e-06, 3.0896404e-05, 1.2814096e-04, -2.6253934e-03, 3.168266e-03,
    4.8020463e-02, 3.320156e-02
)  # fmt: skip
_K = np.float32(0.6650779843330383)


def _erf_float32(x):
    size = abs(x)
    near = _erf_near(x * x) * x + x
    bounded = _ERF_MAX if size > _ERF_MAX else size
    series = _root_of_erfc(bounded)
    d = series * bounded  # below 0.9
    square = d * (_TWO - d)
    root = _ONE - square * (_TWO - square)
    return near if size < _ERF_BEND else np.copysign(_ONE - root * root, x)


@in_float32(_erf_float32)
def erf(x):
    """The error function."""
    return math.erf(x)


@compiled(in_order=True, inline=True)
def _bell(x):
    """exp(-x * x / 2), 0 below 1.2e-38."""
    exponent = -_HALF * x * x
    power, rest = _power_and_rest(exponent, _EXP_NORMAL)
    value = (_exp_series(rest) + _ONE) * _two_to(power)
    return _ZERO if exponent < _EXP_NORMAL else value


def _normal_pdf_float32(x):
    return _DENSITY_0 * _bell(x)


@in_float32(_normal_pdf_float32)
def normal_pdf(x):
    """The density of a standard normal number: exp(-x * x / 2) / sqrt(2 pi)."""
    return 0.3989422804014327 * math.exp(-0.5 * x * x)


def _normal_cdf_float32(x):
    t = _ONE / (_ONE + _T * abs(x))
    tail = _normal_tail(t)
    tail = tail * t * _bell(x)
    return tail if x < _ZERO else _ONE - tail


@in_float32(_normal_cdf_float32)
def normal_cdf(x):
    """The probability that a standard normal number is below x: erfc(-x / sqrt(2)) / 2."""
    return 0.5 * math.erfc(x * -0.7071067811865476)


@compiled(in_order=True, inline=True)
def _fourth_power(d):
    """(1 - d)^4 for d bounded to at most 1."""
    below = d if d < _ONE else _ONE
    square = below * (_TWO - below)
    return _ONE - square * (_TWO - square)


def _normal_gate_float32(x):
    a = abs(x)
    series = _root_of_gate(a)
    root = _fourth_power(series * a)
    tail = root * (_HALF * root)
    return x * (tail if x < _ZERO else _ONE - tail)


@in_float32(_normal_gate_float32)
def normal_gate(x):
    """x times `normal_cdf(x)`."""
    return 0.5 * x * math.erfc(x * -0.7071067811865476)


def _normal_gate_slope_float32(x):
    a = abs(x)
    series = _root_of_slope(a)
    root = _fourth_power(series * a)
    tail = (_HALF - _K * a) * (root * root)
    return tail if x < _ZERO else _ONE - tail


@in_float32(_normal_gate_slope_float32)
def normal_gate_slope(x):
    """The derivative of `normal_gate`: normal_cdf(x) + x * normal_pdf(x)."""
    return 0.5 * math.erfc(x * -0.7071067811865476) + x * (0.3989422804014327 * math.exp(-0.5 * x * x))
