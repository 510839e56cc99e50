"""More distributions that tensors are filled with: `cauchy_`, `geometric_`, `log_normal_`, made of uniform and normal numbers."""

from __future__ import annotations

from math import log1p
from typing import Any

from dynograd.base import dtypes
from dynograd.base.shapes import check_number
from dynograd.tensor.inplace import copy_
from dynograd.tensor.randomness import rand, randn
from dynograd.tensor.tensor import Tensor

__all__ = ["install_random_fills"]


def _filled(self: Tensor, values: Any) -> Tensor:
    return copy_(self, values.to(self.dtype))


def _drawn(draw: Any, self: Tensor, generator: Any) -> Tensor:
    """Numbers in at least float32."""
    kind = self.dtype if self.dtype in (dtypes.float32, dtypes.float64) else dtypes.float32
    return draw(*self.shape, dtype=kind, device=self.device, generator=generator)


def _check_floating(who: str, self: Tensor) -> None:
    if not self.dtype.is_floating_point:
        raise NotImplementedError(f"{who}: not implemented for {self.dtype}. Fill a floating point tensor.")


def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Fills with Cauchy numbers: half of them lie within `sigma` of the median.

    Args:
        median: number.
        sigma: number above 0.
        generator: where random numbers come from; by default the default generator.
    Returns:
        The tensor itself.

    >>> dynograd.zeros(3).cauchy_().shape
    dynograd.Size([3])
    """
    _check_floating("cauchy_", self)
    check_number("cauchy_", "median", median)
    check_number("cauchy_", "sigma", sigma)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_: expects sigma > 0.0, but found sigma={sigma}.")
    return _filled(self, median + sigma * ((_drawn(rand, self, generator) - 0.5) * 3.141592653589793).tan())


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fills with how many trials it takes until the first success of probability `p`: 1, 2, ...

    Args:
        p: between 0 and 1.
        generator: where random numbers come from; by default the default generator.
    Returns:
        The tensor itself.

    >>> dynograd.zeros(3).geometric_(0.5).min() >= 1
    tensor(True)
    """
    check_number("geometric_", "p", p)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_: expects p to be in (0, 1), but got p={p}.")
    trials = ((-_drawn(rand, self, generator)).log1p() / log1p(-p)).ceil()
    return _filled(self, trials.clamp(min=1))


def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fills with numbers whose logarithm is normal, with this mean and standard deviation.

    Args:
        mean: number.
        std: number above 0.
        generator: where random numbers come from; by default the default generator.
    Returns:
        The tensor itself.

    >>> dynograd.zeros(3).log_normal_().min() > 0
    tensor(True)
    """
    _check_floating("log_normal_", self)
    check_number("log_normal_", "mean", mean)
    check_number("log_normal_", "std", std)
    if std <= 0:
        raise RuntimeError(f"log_normal_: expects std > 0.0, but found std={std}.")
    return _filled(self, (mean + std * _drawn(randn, self, generator)).exp())


def install_random_fills() -> None:
    """Puts `cauchy_` and its like on Tensor."""
    for method in (cauchy_, geometric_, log_normal_):
        setattr(Tensor, method.__name__, method)
