"""The error function and the normal distribution in Triton's language: see `math_triton`."""

import triton
import triton.language as tl

from dynograd.kernels.formula.exponentials_triton import exp, log
from dynograd.kernels.formula.numbers_triton import copysign, high_part, polynomial, sqrt


@triton.jit
def erf(x):
    if x.dtype == tl.float64:
        return tl.erf(x)
    else:
        return tl.where(tl.abs(x) < 1e-30, x * 1.1283791670955126, tl.erf(x))


@triton.jit
def _erfcx(x):
    """exp(x * x) * erfc(x) for 0 <= x < inf: a polynomial in (x - k) / (x + k), divided by 1 + 2 x."""
    if x.dtype == tl.float64:
        t = (x - 4.0) / (x + 4.0)
        p = polynomial(t, (
            1.6403183696752708e-09, -6.984021100158542e-09, -1.673812797437216e-08, 9.290772873032215e-08,
            7.202517584836005e-08, -8.019174684327191e-07, 2.968409172531307e-07, 5.6894090899650724e-06,
            -1.1224122281497544e-05, -2.4387691264306046e-05, 0.00015062257137043143, -0.0001992610018544279,
            -0.0007577735257382458, 0.005031971017234254, -0.016197734020451597, 0.03716751538360477,
            -0.06633036581541651, 0.0937328350110569, -0.10103906603618064, 0.06809705425420673,
            0.015379652102618402, -0.139621116840557, 1.2329951186255526
        ))  # fmt: skip
    else:
        t = (x - 2.0) / (x + 2.0)
        p = polynomial(t, (
            0.00016586757913220586, -0.0001824780150093975, -0.0014083577484941415, 0.001040480801881112,
            0.008700217212541207, -0.00794070690627213, -0.05421590087873781, 0.16403527327474507,
            -0.16603060433264322, -0.09276303881018705, 1.2769783815525286
        ))  # fmt: skip
    return p / (1.0 + 2.0 * x)


@triton.jit
def _bell(x, factor: tl.constexpr):
    """exp(-factor * x * x), with the square exact: its error would be multiplied by the exponent."""
    high = high_part(x)
    rest = -factor * ((x - high) * (x + high))
    series = 1.0 + rest * (1.0 + rest * (0.5 + rest * (0.16666666666666666 + rest * 0.041666666666666664)))
    return exp(-factor * (high * high)) * series


@triton.jit
def erfc(x):
    size = tl.abs(x)
    size = tl.where(size > 30.0, 30.0, size)
    value = _bell(size, 1.0) * _erfcx(size)
    return tl.where(x < 0, 2.0 - value, value)


@triton.jit
def _normal_tail(size, bell):
    return 0.5 * bell * _erfcx(size * 0.7071067811865476)


@triton.jit
def _bounded(x):
    size = tl.abs(x)
    return tl.where(size > 40.0, 40.0, size)


@triton.jit
def normal_cdf(x):
    size = _bounded(x)
    tail = _normal_tail(size, _bell(size, 0.5))
    return tl.where(x < 0, tail, 1.0 - tail)


@triton.jit
def normal_pdf(x):
    return _bell(_bounded(x), 0.5) * 0.3989422804014327


@triton.jit
def normal_gate(x):
    return x * normal_cdf(x)


@triton.jit
def normal_gate_slope(x):
    size = _bounded(x)
    bell = _bell(size, 0.5)
    tail = _normal_tail(size, bell)
    return tl.where(x < 0, tail, 1.0 - tail) + x * (bell * 0.3989422804014327)


@triton.jit
def _erfinv_guess(x):
    """Giles' polynomials (Approximating the erfinv function, 2011): 3 units in float32."""
    w = -log((1.0 - x) * (1.0 + x))
    near = w - 2.5
    p = polynomial(near, (
        2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
        -0.00417768164, 0.246640727, 1.50140941
    ))  # fmt: skip
    far = sqrt(w) - 3.0
    q = polynomial(far, (
        -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
        1.00167406, 2.83297682
    ))  # fmt: skip
    return tl.where(w < 5.0, p, q) * x


@triton.jit
def erfinv(x):
    """The number whose erf is x: infinite at -1 and 1, NaN beyond."""
    size = tl.abs(x)
    y = _erfinv_guess(size)
    if x.dtype == tl.float64:
        for _ in tl.static_range(2):  # Halley's method
            excess = tl.where(size > 0.5, (1.0 - size) - erfc(y), tl.erf(y) - size)
            step = excess / (1.1283791670955126 * tl.exp(-y * y))
            y -= step / (1.0 + y * step)
    y = tl.where(size == 1.0, float("inf"), tl.where(size > 1.0, float("nan"), y))
    return copysign(y, x)
