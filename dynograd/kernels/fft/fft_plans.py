"""Which Fourier transforms go through the compiled kernels, and what these need for a size: factors and powers of the root of unity.

Lines of a size with small factors go in groups; a single long line as a square of shorter ones (the four-step form of Gentleman and Sande
1966, Bailey 1990). The rest is NumPy's.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt, sqrt
from typing import Any, NamedTuple

import numpy as np

from dynograd.arrays import buffers

_LARGEST_PRIME = 13  # that there is a stage for; lines of other lengths go by a convolution
_LONGEST = 1 << 14  # of a line in a group: the buffers stay in the caches
LEAST = 1 << 14  # numbers in all, below which NumPy is done before a kernel is loaded
_FEWEST = 6  # lines of a group that pay for its empty places


class Plan(NamedTuple):
    """What the stages of a size need, in the dtype of the computation."""

    factors: Any
    powers: tuple[Any, Any, Any, Any]
    sign: Any


@lru_cache(64)
def _factors(n: int) -> tuple[int, ...] | None:
    """Radices whose product is n, fours first; None when a prime factor is large."""
    factors = []
    for radix in (4, 2, 3, 5, 7, 11, _LARGEST_PRIME):
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return tuple(factors) if n == 1 else None


@lru_cache(64)
def _plan(n: int, kind: str, inverse: bool) -> Plan:
    factors = _factors(n)
    assert factors is not None
    sign = 1.0 if inverse else -1.0
    angles: list[Any] = [np.zeros(0)]
    circles: list[Any] = [np.zeros(0)]
    length = n
    for radix in factors:
        m = length // radix
        angles.append((2 * np.pi / length * np.arange(m)[:, None] * np.arange(1, radix)).reshape(-1))
        if radix > 4:
            circles.append(2 * np.pi / radix * np.arange(radix))
        length = m
    angle, circle = np.concatenate(angles), np.concatenate(circles)
    tables = (np.cos(angle), sign * np.sin(angle), np.cos(circle), sign * np.sin(circle))
    return Plan(np.array(factors, np.int64), tuple([table.astype(kind) for table in tables]), np.dtype(kind).type(sign))  # type: ignore[arg-type]


@lru_cache(8)
def _powers(n: int, inverse: bool) -> tuple[Any, Any, int]:
    """(powers 0, step, 2 step, ..., powers 0 to step - 1, step) of the n-th root of unity, in float64 as numbers side by side."""
    step = max(isqrt(n), 1)
    angle = (2j if inverse else -2j) * np.pi / n
    coarse = np.exp(angle * step * np.arange(n // step + 1))
    return coarse.view(np.float64), np.exp(angle * np.arange(step)).view(np.float64), step


def _scale(n: int, norm: str, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / sqrt(n)
    return 1 / n if (norm == "forward") != inverse else 1.0


def along(x: Any, dim: int, norm: str, inverse: bool) -> Any:
    """The transform of complex `x` along one dim as a new array; None where NumPy should do it."""
    n = x.shape[dim]
    if x.dtype.char not in "FD" or x.size < LEAST or n < 2 or _factors(n) is None:
        return None
    inner = int(np.prod(x.shape[dim + 1 :], dtype=np.int64))
    lines = x.size // n
    if n <= _LONGEST and lines >= _FEWEST:
        x = np.ascontiguousarray(x)
        out = buffers.empty(x.shape, x.dtype)
        _group(x, out, n, inner, lines, _scale(n, norm, inverse), inverse)
        return out
    split = _split(n)
    if inner != 1 or split is None or n < 4096:
        return None
    x = np.ascontiguousarray(x)
    out = buffers.empty(x.shape, x.dtype)
    for source, target in zip(x.reshape(-1, n), out.reshape(-1, n), strict=True):
        _long_line(source, target, split, _scale(n, norm, inverse), inverse)
    return out


def _group(x: Any, out: Any, n: int, inner: int, lines: int, scale: float, inverse: bool) -> None:
    from dynograd.kernels.fft import ffts_numba

    kind = x.real.dtype
    plan = _plan(n, kind.char, inverse)
    operands, result = x.reshape(-1).view(kind), out.reshape(-1).view(kind)
    stages = (plan.factors, *plan.powers, plan.sign, kind.type(scale))
    if inner == 1:
        groups = -(-lines // ffts_numba.LANES)
        ffts_numba.transform(operands, result, n, lines, *stages, count=groups, work=4 * x.size)
    else:
        groups = lines // inner * -(-inner // ffts_numba.COLUMNS)
        ffts_numba.transform_columns(operands, result, n, inner, *stages, count=groups, work=4 * x.size)


@lru_cache(64)
def _split(n: int) -> tuple[int, int] | None:
    """Two factors of n as equal as can be, both short enough for a group; None when there are none."""
    for factor in range(isqrt(n), 1, -1):
        if n % factor == 0:
            return (factor, n // factor) if n // factor <= _LONGEST and factor >= _FEWEST else None
    return None


def _long_line(x: Any, out: Any, split: tuple[int, int], scale: float, inverse: bool) -> None:
    """A line as a matrix: its columns, then its rows, each element with a factor, turned."""
    from dynograd.kernels.fft import ffts_numba

    rows, columns = split
    middle = buffers.empty((rows, columns), x.dtype)
    _group(x, middle, rows, columns, columns, 1.0, inverse)
    kind = x.real.dtype
    plan = _plan(columns, kind.char, inverse)
    angle = (2 if inverse else -2) * np.pi / x.size
    ffts_numba.transform_turned(
        middle.reshape(-1).view(kind), out.reshape(-1).view(kind), columns, rows, angle, plan.factors, *plan.powers, plan.sign,
        kind.type(scale), count=-(-rows // ffts_numba.COLUMNS), work=8 * x.size,
    )  # fmt: skip


def half_of_rows(x: Any, norm: str) -> Any:
    """The first n // 2 + 1 numbers of the transform of real `x` along its last dim; None where NumPy should do it."""
    from dynograd.kernels.fft import ffts_numba

    n, kind = x.shape[-1], x.dtype
    if kind.char not in "fd" or x.size < LEAST or n < 2 or _factors(n) is None:
        return None
    rows, scale = x.size // n, kind.type(_scale(n, norm, False))
    out = buffers.empty((*x.shape[:-1], n // 2 + 1), np.result_type(kind, np.complex64))
    if n <= _LONGEST and rows >= 2 * _FEWEST:
        _rows(x, out, rows, scale)
        return out
    if n % 2 or n < 8192 or _split(n // 2) is None:
        return None
    half = n // 2
    middle = buffers.empty((half,), out.dtype)
    coarse, fine, step = _powers(n, False)
    for source, target in zip(np.ascontiguousarray(x).reshape(-1, n), out.reshape(-1, half + 1), strict=True):
        _long_line(source.view(out.dtype), middle, _split(half), scale, False)  # type: ignore[arg-type]
        ffts_numba.unpacked(
            middle.view(kind), target.view(kind), half, coarse, fine, step, count=half + 1, work=4 * half
        )
    return out


def whole_of_rows(x: Any, norm: str) -> Any:
    """The transform of real `x` along its last dim, all n numbers; None where another way is quicker."""
    n, kind = x.shape[-1], x.dtype
    rows = x.size // n
    if kind.char not in "fd" or x.size < LEAST or not 2 <= n <= _LONGEST or rows < 2 * _FEWEST or _factors(n) is None:
        return None
    out = buffers.empty(x.shape, np.result_type(kind, np.complex64))
    _rows(x, out, rows, kind.type(_scale(n, norm, False)))
    return out


def _rows(x: Any, out: Any, rows: int, scale: Any) -> None:
    """Of each real row the transform's first numbers, as many as a row of `out` holds: n // 2 + 1 or n."""
    from dynograd.kernels.fft import ffts_numba

    n, kind = x.shape[-1], x.dtype
    plan = _plan(n, kind.char, False)
    ffts_numba.halves(
        np.ascontiguousarray(x).reshape(-1), out.reshape(-1).view(kind), n, out.shape[-1], rows, plan.factors, *plan.powers,
        plan.sign, scale, count=-(-rows // (2 * ffts_numba.LANES)), work=2 * x.size,
    )  # fmt: skip


def rows_of_halves(x: Any, n: int, norm: str) -> Any:
    """The real array of `n` along the last dim whose transform begins with `x`; None where NumPy should do it."""
    from dynograd.kernels.fft import ffts_numba

    count = n // 2 + 1
    if x.dtype.char not in "FD" or n < 2 or n > _LONGEST or _factors(n) is None or x.shape[-1] != count:
        return None
    rows = x.size // count
    if x.size < LEAST or rows < 2 * _FEWEST:
        return None
    kind = x.real.dtype
    out = buffers.empty((*x.shape[:-1], n), kind)
    plan = _plan(n, kind.char, True)
    ffts_numba.from_halves(
        np.ascontiguousarray(x).reshape(-1).view(kind), out.reshape(-1), n, rows, plan.factors, *plan.powers, plan.sign,
        kind.type(_scale(n, norm, True)), count=-(-rows // (2 * ffts_numba.LANES)), work=2 * out.size,
    )  # fmt: skip
    return out
