"""Discrete Fourier transforms of NumPy arrays: compiled kernels where `fft_plans` has one, else NumPy (which keeps float32 in float32)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.fft import fft_plans
from dynograd.kernels.layout.copies_cpu import contiguous

try:
    from numpy.fft import _pocketfft_umath as _at_once
except ImportError:
    _at_once: Any = None  # type: ignore[no-redef]
_COMPLEX = {"f": np.dtype("F"), "d": np.dtype("D"), "F": np.dtype("F"), "D": np.dtype("D")}
_REAL = {"f": np.dtype("f"), "d": np.dtype("d"), "F": np.dtype("f"), "D": np.dtype("d")}


@lru_cache(256)
def _factor(n, norm, inverse, char):
    """What NumPy multiplies with."""
    kind = _REAL[char]
    if norm == "ortho":
        return np.asarray(np.reciprocal(np.sqrt(n, dtype=kind), dtype=kind))
    return np.asarray(np.reciprocal(n, dtype=kind) if (norm == "forward") != inverse else 1, kind)


def _few(x, dims):
    """Whether one line after the other of few numbers is to be transformed by NumPy; its Python code takes longer than that."""
    return len(dims) == 1 and (dims[0] + 1) % x.ndim == 0 and 0 < x.size < fft_plans.LEAST and _at_once is not None


def complex_transform(x, dims, norm, inverse):
    """Complex or real to complex along `dims`; `norm` names the scale of a forward transform, of an inverse one the one that divides by n."""
    kind = x.dtype.char
    if dims and _few(x, dims) and kind in _REAL:
        out = np.empty(x.shape, _COMPLEX[kind])
        factor = _factor(x.shape[-1], norm, inverse, kind)
        return (_at_once.ifft if inverse else _at_once.fft)(x if kind in "FD" else x.astype(out.dtype), factor, out=out)
    if x.dtype.kind != "c":
        if dims[-1] % x.ndim == x.ndim - 1 and not inverse and x.size:
            spectrum = fft_plans.whole_of_rows(x, norm)
            if spectrum is not None:
                return complex_transform(spectrum, dims[:-1], norm, inverse)
        x = x.astype(np.result_type(x.dtype, np.complex64))
    if 0 in x.shape:
        return np.zeros(x.shape, x.dtype)
    for dim in reversed(dims):
        spectrum = fft_plans.along(x, dim, norm, inverse)
        x = (np.fft.ifft if inverse else np.fft.fft)(x, axis=dim, norm=norm) if spectrum is None else spectrum
    return contiguous(x)


def half_transform(x, dims, norm):
    """Real to the half of the complex numbers that the others follow from, along `dims`, of which the last is halved."""
    if 0 in x.shape:
        last = dims[-1]
        shape = (*x.shape[:last], x.shape[last] // 2 + 1, *x.shape[last + 1 :])
        return np.zeros(shape, np.result_type(x.dtype, np.complex64))
    last = dims[-1] % x.ndim
    if _few(x, dims) and x.dtype.char in "fd":
        n = x.shape[-1]
        out = np.empty((*x.shape[:-1], n // 2 + 1), _COMPLEX[x.dtype.char])
        transform = _at_once.rfft_n_odd if n % 2 else _at_once.rfft_n_even
        return transform(x, _factor(n, norm, False, x.dtype.char), out=out)
    spectrum = fft_plans.half_of_rows(x, norm) if last == x.ndim - 1 else None
    spectrum = np.fft.rfft(x, axis=last, norm=norm) if spectrum is None else spectrum
    return complex_transform(spectrum, dims[:-1], norm, False)


def from_half(x, n, dims, norm):
    """The real array of `n` along the last of `dims` whose transform has `x` as its half."""
    if 0 in x.shape:
        last = dims[-1]
        return np.zeros((*x.shape[:last], n, *x.shape[last + 1 :]), x.real.dtype)
    if _few(x, dims) and x.dtype.char in "FD":
        kind = x.dtype.char
        return _at_once.irfft(x, _factor(n, norm, True, kind), out=np.empty((*x.shape[:-1], n), _REAL[kind]))
    x = complex_transform(x, dims[:-1], norm, True)
    signal = fft_plans.rows_of_halves(x, n, norm) if dims[-1] % x.ndim == x.ndim - 1 else None
    return contiguous(np.fft.irfft(x, n, dims[-1], norm) if signal is None else signal)


def half_weights(count, n, dtype):
    """How often each number of a half stands in the whole: 1 for the first and (of an even `n`) the last, else 2."""
    weights = buffers.empty((count,), dtype)
    weights[...] = 2
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return weights


# --- windows and frequencies ---------------------------------------------------------------------------------------------


def _steps(length, periodic):
    """k / n in float64; one point stands at the middle."""
    if length == 1:
        return np.full(1, 0.5)
    return np.arange(length) / (length if periodic else length - 1)


def cosines(length, periodic, first, second, three):
    """one - two cos(2 pi k / n) + three cos(4 pi k / n); a single point is 1."""
    if length == 1:
        return np.ones(1)
    turns = 2 * np.pi * _steps(length, periodic)
    return first - second * np.cos(turns) + three * np.cos(2 * turns)


def triangle(length, periodic):
    """A rise from 0 to 1 and back."""
    return 1 - np.abs(2 * _steps(length, periodic) - 1)


def kaiser(length, periodic, beta):
    """Kaiser's window."""
    across = 2 * _steps(length, periodic) - 1
    return np.i0(beta * np.sqrt(np.maximum(1 - across * across, 0))) / np.i0(beta)


def frequencies(n, d, half):
    """The frequencies of the points of a transform."""
    return np.fft.rfftfreq(n, d) if half else np.fft.fftfreq(n, d)
