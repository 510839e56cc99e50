"""Windows for short-time Fourier transforms, and the frequencies of a transform's points."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.base import dtypes
from dynograd.errors import DtypeError, ShapeError
from dynograd.interpreter.out_forms import write_out
from dynograd.kernels import kernel
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """`0.5 - 0.5 cos(2 pi k / n)` for k = 0 .. window_length - 1.

    Args:
        window_length: number of points, at least 0.
        periodic: n is `window_length`, for spectra; otherwise `window_length - 1`, which makes it symmetric.
        options: dtype, device, requires_grad, pin_memory, layout.
    Returns:
        (window_length,).
    Raises:
        ShapeError: a negative length.
        DtypeError: a dtype that is not floating.

    >>> dynograd.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _made("hann_window", "cosines", window_length, periodic, options, 0.5, 0.5, 0.0)


def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Tensor:
    """`alpha - beta cos(2 pi k / n)`; see `hann_window`.

    Args:
        window_length: number of points, at least 0.
        periodic: for spectra; otherwise the window is symmetric.
        alpha, beta: the two weights.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (window_length,).

    >>> dynograd.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _made("hamming_window", "cosines", window_length, periodic, options, alpha, beta, 0.0)


def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """`0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)`; see `hann_window`.

    Args:
        window_length: number of points, at least 0.
        periodic: for spectra; otherwise the window is symmetric.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (window_length,).

    >>> dynograd.blackman_window(4).round(decimals=2)
    tensor([-0.0000,  0.3400,  1.0000,  0.3400])
    """
    return _made("blackman_window", "cosines", window_length, periodic, options, 0.42, 0.5, 0.08)


def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """A triangle, `1 - |2 k / n - 1|`; see `hann_window`.

    Args:
        window_length: number of points, at least 0.
        periodic: for spectra; otherwise the window is symmetric.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (window_length,).

    >>> dynograd.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _made("bartlett_window", "triangle", window_length, periodic, options)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Tensor:
    """`i0(beta sqrt(1 - (2 k / n - 1)^2)) / i0(beta)`, with the Bessel function i0; see `hann_window`.

    Args:
        window_length: number of points, at least 0.
        periodic: for spectra; otherwise the window is symmetric.
        beta: shape, at least 0; larger ones make it narrower.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (window_length,).

    >>> dynograd.kaiser_window(4, beta=2.0)
    tensor([0.4387, 0.8348, 1.0000, 0.8348])
    """
    return _made("kaiser_window", "kaiser", window_length, periodic, options, beta)


def _made(who: str, shape: str, length: int, periodic: bool, options: dict[str, Any], *parameters: float) -> Tensor:
    kind, place, wants = _options(who, options)
    if length < 0:
        raise ShapeError(f"{who}: {who} requires non-negative window_length, got window_length={length}.")
    if not (kind.is_floating_point):
        raise DtypeError(f"{who}: {who} expects floating point dtypes, got: {kind}.")
    return _finished(kernel("ffts", shape, 0)(length, periodic, *parameters), kind, place, wants)


def _options(who: str, options: dict[str, Any]) -> tuple[Any, Any, bool]:
    unknown = set(options) - {"dtype", "device", "requires_grad", "pin_memory", "layout"}
    if unknown:
        raise TypeError(f"{who}: got unexpected arguments {sorted(unknown)}. It takes dtype, device, requires_grad.")
    kind = options.get("dtype")
    kind = dtypes.get_default_dtype() if kind is None else dtypes.as_dtype(kind)
    return kind, arrays.check_device(who, options.get("device")), bool(options.get("requires_grad"))


def _finished(array: Any, kind: Any, place: Any, wants: bool) -> Tensor:
    tensor = wrap(arrays.to_device(arrays.cast(array, kind), place))
    if wants:
        tensor.requires_grad = True
    return tensor


def fftfreq(n: int, d: float = 1.0, *, out: Any = None, **options: Any) -> Tensor:
    """The frequency of each point of an `fft` of `n` points that lie `d` apart: 0, 1, ..., -2, -1, over n d.

    Args:
        n: number of points, at least 1.
        d: the distance of points, in seconds for frequencies in Hz.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (n,), of the default dtype.

    >>> dynograd.fft.fftfreq(5)
    tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])
    """
    result = _finished(kernel("ffts", "frequencies", 0)(n, d, False), *_options("fftfreq", options))
    return result if out is None else write_out("fftfreq", out, result)


def rfftfreq(n: int, d: float = 1.0, *, out: Any = None, **options: Any) -> Tensor:
    """The frequency of each point of an `rfft` of `n` points that lie `d` apart: 0, 1, ..., n // 2, over n d.

    Args:
        n: number of points, at least 1.
        d: the distance of points, in seconds for frequencies in Hz.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (n // 2 + 1,), of the default dtype.

    >>> dynograd.fft.rfftfreq(5)
    tensor([0.0000, 0.2000, 0.4000])
    """
    result = _finished(kernel("ffts", "frequencies", 0)(n, d, True), *_options("rfftfreq", options))
    return result if out is None else write_out("rfftfreq", out, result)
