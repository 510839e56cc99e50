"""The standard's Fourier transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from dynograd import fft as _fft
from dynograd.tensor.tensor import Tensor

_ALONG_ONE = "fft ifft rfft irfft hfft ihfft".split()
_OVER_SEVERAL = "fftn ifftn rfftn irfftn".split()

__all__ = [*_ALONG_ONE, *_OVER_SEVERAL, "fftfreq", "rfftfreq", "fftshift", "ifftshift"]


def _along_one(name: str) -> Callable[..., Any]:
    transform = getattr(_fft, name)

    def function(x: Tensor, /, *, n: Any = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return transform(x, n, axis, norm)

    return _named(function, transform)


def _over_several(name: str) -> Callable[..., Any]:
    transform = getattr(_fft, name)

    def function(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
        return transform(x, s, axes, norm)

    return _named(function, transform)


def _named(function: Any, transform: Any) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = transform.__name__.removeprefix("fft_")
    function.__doc__ = (inspect.getdoc(transform) or "").split("\n\n")[0]
    return function


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequency of each point of an `fft` of `n` points that lie `d` apart.

    >>> xp.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequency of each point of an `rfft` of `n` points that lie `d` apart."""
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """`x` with frequency 0, which `fft` puts first, in the middle."""
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """`fftshift` undone."""
    return _fft.ifftshift(x, axes)


globals().update({name: _along_one(name) for name in _ALONG_ONE})
globals().update({name: _over_several(name) for name in _OVER_SEVERAL})
