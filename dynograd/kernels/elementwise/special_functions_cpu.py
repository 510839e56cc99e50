"""Kernels of the error function, the gamma function and their relatives, computed in float64 (erf of float32 in float32).

Largest errors, relative: erf and erfc that of libm, erfinv and polygamma 1e-14, digamma 1e-14 (absolute near its zeros);
erf of float32 4e-7.
"""

from __future__ import annotations

from typing import Any

from dynograd.kernels.elementwise.ufuncs import compiled

__all__ = ["digamma", "erf", "erfc", "erfinv", "lgamma", "polygamma"]


def erf(input: Any) -> Any:
    return compiled("erf", input.dtype.char)(input)


def erfc(input: Any) -> Any:
    return compiled("erfc", input.dtype.char)(input)


def erfinv(input: Any) -> Any:
    return compiled("erfinv", input.dtype.char)(input)


def lgamma(input: Any) -> Any:
    return compiled("lgamma", input.dtype.char)(input)


def digamma(input: Any) -> Any:
    return compiled("digamma", input.dtype.char)(input)


def polygamma(input: Any, n: int) -> Any:
    if n == 0:
        return digamma(input)
    return compiled("polygamma", input.dtype.char * 2)(input.dtype.type(n), input)
