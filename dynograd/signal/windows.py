"""Windows for spectra and filters (`torch.signal.windows`), computed in float64 and rounded once.

All take `M`, the number of points, and after it by name: `sym` (symmetric, for filters; False makes it periodic, for spectra: one point
more, without the last), `dtype` (float32 or float64), `layout`, `device` and `requires_grad`.

>>> dynograd.signal.windows.hann(4, sym=False)
tensor([0.0000, 0.5000, 1.0000, 0.5000])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from dynograd.base import dtypes
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.interpreter.public_forms import explained
from dynograd.ops.elementwise.arithmetic import abs
from dynograd.ops.elementwise.bessel_functions import i0
from dynograd.ops.elementwise.exponentials import exp
from dynograd.ops.elementwise.trigonometrics import cos, sin
from dynograd.tensor.creation import arange
from dynograd.tensor.tensor import Tensor

__path__: list[str] = []  # PyTorch has modules below it (`compat.import_paths`)
__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A triangle, `1 - |2 k / n - 1|` with n = M - 1 (M when periodic).

    Args:
        M: number of points, at least 0.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).

    >>> dynograd.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett", M, sym, options, lambda k, n: 1 - abs(k * (2 / n) - 1))


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n)`.

    Args:
        M: number of points, at least 0.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).

    >>> dynograd.signal.windows.blackman(3).round(decimals=2).abs()
    tensor([0., 1., 0.])
    """
    return _of_cosines("blackman", M, (0.42, 0.5, 0.08), sym, options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a wave, `sin(pi (k + 0.5) / M)` (M + 1 when periodic).

    Args:
        M: number of points, at least 0.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).

    >>> dynograd.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    count = M + 1 if not sym and M > 1 else M
    return _window("cosine", M, sym, options, lambda k, n: sin((k + 0.5) * (math.pi / count)))


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """`exp(-|k - center| / tau)`; the center is the middle, unless a periodic window is given one.

    Args:
        M: number of points, at least 0.
        center: the place of the largest value.
        tau: over how many points it falls to 1 / e; above 0.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).
    Raises:
        ValueError: `tau` is not above 0, or a symmetric window has a `center`.

    >>> dynograd.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"exponential: Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError(f"exponential: Center must be None for symmetric windows, got {center}. Pass sym=False.")
    middle = _middle(M, sym) if center is None else center
    return _window("exponential", M, sym, options, lambda k, n: exp(abs(k - middle) * (-1 / tau)))


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """`exp(-(k - middle)^2 / (2 std^2))`.

    Args:
        M: number of points, at least 0.
        std: in points, above 0.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).
    Raises:
        ValueError: `std` is not above 0.

    >>> dynograd.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead.")
    middle = _middle(M, sym)
    return _window("gaussian", M, sym, options, lambda k, n: exp((k - middle) * (k - middle) * (-0.5 / std**2)))


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """`a[0] - a[1] cos(2 pi k / n) + a[2] cos(4 pi k / n) - ...`.

    Args:
        M: number of points, at least 0.
        a: the weights of the waves.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).
    Raises:
        TypeError: `a` is no list or tuple.
        ValueError: `a` is empty.

    >>> dynograd.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    return _of_cosines("general_cosine", M, a, sym, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """`alpha - (1 - alpha) cos(2 pi k / n)`.

    Args:
        M: number of points, at least 0.
        alpha: the weight of the constant part.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).

    >>> dynograd.signal.windows.general_hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _of_cosines("general_hamming", M, (alpha, 1 - alpha), sym, options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`0.54 - 0.46 cos(2 pi k / n)`.

    Args:
        M: number of points, at least 0.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).

    >>> dynograd.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _of_cosines("hamming", M, (0.54, 0.46), sym, options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """`0.5 - 0.5 cos(2 pi k / n)`.

    Args:
        M: number of points, at least 0.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).

    >>> dynograd.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return _of_cosines("hann", M, (0.5, 0.5), sym, options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """`i0(beta sqrt(1 - (2 k / n - 1)^2)) / i0(beta)`, with the Bessel function i0.

    Args:
        M: number of points, at least 0.
        beta: shape, at least 0; larger ones make it narrower.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).
    Raises:
        ValueError: `beta` is negative.

    >>> dynograd.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")

    def formula(k: Any, n: int) -> Tensor:
        across = k * (2 / n) - 1
        return i0((1 - across * across).clamp(min=0).sqrt() * beta) / i0(k * 0 + beta)

    return _window("kaiser", M, sym, options, formula)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """The minimum 4-term Blackman-Harris window, `0.3635819 - 0.4891775 cos(z) + 0.1365995 cos(2 z) - 0.0106411 cos(3 z)`, z = 2 pi k / n.

    Args:
        M: number of points, at least 0.
        sym: symmetric, for filters; otherwise periodic, for spectra.
        options: dtype, device, requires_grad, layout, pin_memory of the result.
    Returns:
        (M,).
    Source: Nuttall, Some windows with very good sidelobe behavior, 1981.

    >>> dynograd.signal.windows.nuttall(3)
    tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    return _of_cosines("nuttall", M, (0.3635819, 0.4891775, 0.1365995, 0.0106411), sym, options)


def _of_cosines(who: str, M: int, a: Any, sym: bool, options: dict[str, Any]) -> Tensor:
    if not isinstance(a, Iterable):
        raise TypeError(f"{who}: Coefficients must be a list/tuple, got {type(a).__name__}.")
    weights = tuple(a)
    if not weights:
        raise ValueError(f"{who}: Coefficients cannot be empty.")

    def formula(k: Any, n: int) -> Tensor:
        turns = k * (2 * math.pi / n)
        total = k * 0 + weights[0]
        for number, weight in enumerate(weights[1:], 1):
            total = total + cos(turns * number) * (-weight if number % 2 else weight)
        return total

    return _window(who, M, sym, options, formula)


def _middle(M: int, sym: bool) -> float:
    return (M if not sym and M > 1 else M - 1) / 2


_OPTIONS = {"dtype", "layout", "device", "requires_grad"}


def _window(who: str, M: int, sym: bool, options: dict[str, Any], formula: Callable[[Any, int], Any]) -> Tensor:
    """`formula(k, n)` for the points k, a single one being 1."""
    if unknown := set(options) - _OPTIONS:
        raise TypeError(f"{who}: got unexpected arguments {sorted(unknown)}. It takes {', '.join(sorted(_OPTIONS))}.")
    if M < 0:
        raise ValueError(f"{who}: requires non-negative window length, got M={M}.")
    kind = options.get("dtype")
    kind = dtypes.get_default_dtype() if kind is None else dtypes.as_dtype(kind)
    if kind not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{who}: expects float32 or float64 dtypes, got: {kind}.")
    if str(options.get("layout") or "strided").rpartition(".")[2] != "strided":
        raise ValueError(f"{who}: is implemented for strided tensors only, got: {options['layout']}.")
    places: Any = arange(M, dtype=dtypes.float64)
    by_formula = M > 1 or (M == 1 and who in _BY_FORMULA)
    window: Any = formula(places, (M - 1 if sym else M) or 1) if by_formula else places + 1
    window = window.to(kind).to(options.get("device") or "cpu")
    if options.get("requires_grad"):
        window.requires_grad = True
    return window


# Windows whose single point is what their formula says.
_BY_FORMULA = ("cosine", "exponential", "gaussian")
globals().update({name: explained(globals()[name]) for name in __all__})

_show_plainly(globals())
