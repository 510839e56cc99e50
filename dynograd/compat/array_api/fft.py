"""The standard's Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynograd import fft as _fft
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.compat.array_api.table import sentence_of
from dynograd.tensor.tensor import Tensor

_ALONG_ONE = "fft ifft rfft irfft hfft ihfft".split()
_OVER_SEVERAL = "fftn ifftn rfftn irfftn".split()

__all__ = [*_ALONG_ONE, *_OVER_SEVERAL, "fftfreq", "rfftfreq", "fftshift", "ifftshift"]

# Of each, for the numbers 1 and 2.
_RESULTS = dict(
    line.split(" = ")
    for line in """
fft = tensor([ 3.+0.j, -1.+0.j])
ifft = tensor([ 1.5000+0.j, -0.5000+0.j])
rfft = tensor([ 3.+0.j, -1.+0.j])
irfft = tensor([ 1.5000, -0.5000])
hfft = tensor([ 3., -1.])
ihfft = tensor([ 1.5000-0.j, -0.5000-0.j])
fftn = tensor([ 3.+0.j, -1.+0.j])
ifftn = tensor([ 1.5000+0.j, -0.5000+0.j])
rfftn = tensor([ 3.+0.j, -1.+0.j])
irfftn = tensor([ 1.5000, -0.5000])
""".split("\n")[1:-1]
)


def _along_one(name: str) -> Callable[..., Any]:
    transform = getattr(_fft, name)

    def function(x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
        return transform(x, n, axis, norm)

    return _named(function, transform)


def _over_several(name: str) -> Callable[..., Any]:
    transform = getattr(_fft, name)

    def function(
        x: Tensor, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Tensor:
        return transform(x, s, axes, norm)

    return _named(function, transform)


def _named(function: Any, transform: Any) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = transform.__name__.removeprefix("fft_")
    name = function.__name__
    sizes = (
        "n: the size to pad or cut to; None keeps it.\n    axis: which dim"
        if name in _ALONG_ONE
        else "s: the sizes to pad or cut to; None keeps them.\n    axes: which dims; None is the last ones, as many as `s`, or all"
    )
    function.__doc__ = (
        f'{sentence_of(transform)}\n\nArgs:\n    x: a tensor.\n    {sizes}.\n    norm: "backward", "ortho" or "forward": which way divides by '
        f"the size.\nReturns:\n    A tensor; see `dynograd.fft.{name}`.\n\n>>> xp.fft.{name}(xp.asarray([1.0, 2.0]))\n{_RESULTS[name]}"
    )
    return function


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """The frequency of each point of an `fft` of `n` points that lie `d` apart.

    Args:
        n: how many points.
        d: the distance of the points.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        (n,).

    >>> xp.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DtypeLike = None, device: DeviceLike = None) -> Tensor:
    """The frequency of each point of an `rfft` of `n` points that lie `d` apart.

    Args:
        n: how many points.
        d: the distance of the points.
        dtype: of the result; by default that of the values.
        device: where it lies; the default device unless given.
    Returns:
        (n // 2 + 1,).

    >>> xp.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Sequence[int] | None = None) -> Tensor:
    """`x` with frequency 0, which `fft` puts first, in the middle.

    Args:
        x: a tensor.
        axes: dims; None is all.
    Returns:
        The shape of `x`.

    >>> xp.fft.fftshift(xp.asarray([0, 1, 2, 3]))
    tensor([2, 3, 0, 1])
    """
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Sequence[int] | None = None) -> Tensor:
    """`fftshift` undone.

    Args:
        x: a tensor.
        axes: dims; None is all.
    Returns:
        The shape of `x`.

    >>> xp.fft.ifftshift(xp.asarray([2, 3, 0, 1]))
    tensor([0, 1, 2, 3])
    """
    return _fft.ifftshift(x, axes)


globals().update({name: _along_one(name) for name in _ALONG_ONE})
globals().update({name: _over_several(name) for name in _OVER_SEVERAL})

_show_plainly(globals())
