"""The formula language's functions in Triton's language: `@triton.jit` helpers for float32 and float64 (some for integers).

Only what both Triton's compiler and its interpreter have is used. Half types are widened by the caller. Where Triton's own function
is exact enough it is taken, with what it flushes mended (libdevice is called with flush-to-zero: the logarithm of a subnormal
number would be -inf; `tl.exp` in float32 has 40 units of error far from 0).

Largest errors in float32, in units in the last place, in emulation (`tests/gpu/test_math.py`; the card's own ex2, division and
square root add up to 2 units):

    exp exp2 expm1 1.2   log log2 sin cos 1.8   sqrt erf 0.5   tanh atan asin acos atan2 hypot 2   sigmoid tan 2.5   log10 0.6
    sinh cosh normal_pdf 3   log1p asinh acosh atanh erfinv 3.5   erfc normal_cdf normal_gate 4.5, in the far tail too
    normal_gate_slope absolute 1.2e-7   lgamma digamma polygamma power 0.6 (computed in float64)   mod fmod floor_divide exact

In float64 a few units, 1e-15 relative; erfc and normal_cdf 1e-15 in the far tail too, power 1 unit, lgamma below 0 and digamma
absolute 1e-14 near their zeros, polygamma 2e-14. What the results of infinities, NaN and domain ends are is NumPy's and SciPy's.

`mod fmod floor_divide` want blocks, not scalars. `digamma lgamma polygamma power(float64)` take 60 to 100 registers for each element that
a thread has: blocks of one or two elements a thread.
"""

from dynograd.kernels.formula.angles_triton import acos, asin, atan, atan2, cos, sin, tan
from dynograd.kernels.formula.errors_triton import (
    erf,
    erfc,
    erfinv,
    normal_cdf,
    normal_gate,
    normal_gate_slope,
    normal_pdf,
)
from dynograd.kernels.formula.exponentials_triton import (
    acosh,
    asinh,
    atanh,
    cosh,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    log10,
    power,
    sigmoid,
    sinh,
    tanh,
)
from dynograd.kernels.formula.gammas_triton import digamma, lgamma, polygamma, zeta
from dynograd.kernels.formula.numbers_triton import (
    abs,
    ceil,
    copysign,
    floor,
    fmax,
    fmin,
    hypot,
    isfinite,
    isinf,
    isnan,
    max,
    min,
    neg,
    round,
    sign,
    signbit,
    sqrt,
    trunc,
)
from dynograd.kernels.formula.polynomials_triton import chebyshev, gegenbauer, hermite, laguerre, spherical_bessel
from dynograd.kernels.formula.quotients_triton import floor_divide, fmod, gcd, lcm, mod

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "chebyshev", "copysign", "cos", "cosh", "digamma",
    "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "floor_divide", "fmax", "fmin", "fmod", "gcd", "gegenbauer", "hermite",
    "hypot", "isfinite", "isinf", "isnan", "laguerre", "lcm", "lgamma", "log", "log10", "log1p", "log2", "max", "min", "mod", "neg",
    "normal_cdf", "normal_gate", "normal_gate_slope", "normal_pdf", "polygamma", "power", "round", "sigmoid", "sign",
    "signbit", "sin", "sinh", "spherical_bessel", "sqrt", "tan", "tanh", "trunc", "zeta",
]  # fmt: skip
