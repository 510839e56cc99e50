"""Remainders and whole quotients of floats for generated kernels.

float32 is computed in float64 without loops or branches, and is exact where the quotient is below 2**28 (callers see to that:
`loops_cpu.quotients_fit`); it vectorises. float64 takes libm's fmod. Importing this loads Numba.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.formula.scalars_numba import in_float32

__all__ = ["floor_divide", "fmod", "mod"]


@compiled(in_order=True, inline=True)
def _rest32(x, y):
    """|x| modulo |y| as float64. The reciprocal is taken once where y repeats; what a quotient by it is off by one is put right."""
    a, b = abs(np.float64(x)), abs(np.float64(y))
    rest = a - np.floor(a * (1.0 / b)) * b
    rest = rest + b if rest < 0.0 else rest
    rest = rest - b if rest >= b else rest
    return a if b == np.inf else rest


@compiled(in_order=True, inline=True)
def _rest64(x, y):
    return np.fmod(abs(x), abs(y))


@compiled(in_order=True, inline=True)
def _moved(rest, x, y):
    """The rest of the division rounded down, from that of the absolute values."""
    other = ((x < 0) != (y < 0)) & (rest != 0.0)
    return np.copysign(abs(y) - rest if other else rest, y)


@compiled(in_order=True, inline=True)
def _quotient(rest, x, y):
    other = ((x < 0) != (y < 0)) & (rest != 0.0)
    size = np.rint((abs(x) - rest) / abs(y)) + (1.0 if other else 0.0)
    value = np.copysign(size, x) * np.copysign(1.0, y)
    return x / y if y == 0 else value


def _fmod_float32(x, y):
    return np.float32(np.copysign(_rest32(x, y), np.float64(x)))


@in_float32(_fmod_float32)
def fmod(x, y):
    """The rest of `x / y` rounded towards 0: it has the sign of `x`."""
    return np.copysign(_rest64(x, y), x)


def _mod_float32(x, y):
    return np.float32(_moved(_rest32(x, y), np.float64(x), np.float64(y)))


@in_float32(_mod_float32)
def mod(x, y):
    """The rest of `x / y` rounded down: it has the sign of `y`."""
    return _moved(_rest64(x, y), x, y)


def _floor_divide_float32(x, y):
    return np.float32(_quotient(_rest32(x, y), np.float64(x), np.float64(y)))


@in_float32(_floor_divide_float32)
def floor_divide(x, y):
    """`x / y` rounded down."""
    return _quotient(_rest64(x, y), x, y)
