"""The von Mises distribution: normal-like angles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.autograd import no_grad
from dynograd.base import dtypes
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import Distribution
from dynograd.distributions.utils import broadcast_all
from dynograd.ops.elementwise.bessel_functions import i0e, i1e
from dynograd.ops.elementwise.choices import where
from dynograd.tensor.creation import zeros_like
from dynograd.tensor.randomness import rand
from dynograd.tensor.tensor import Tensor

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles (radians, from -pi to pi) around `loc`; the larger `concentration`, the nearer.

    Args:
        loc: the mean angle, radians.
        concentration: positive; near 0 all angles are equally probable. The two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).
    Source: Best and Fisher, Efficient simulation of the von Mises distribution, 1979 (samples by rejection).

    >>> dynograd.distributions.VonMises(0.0, 4.0).log_prob(tensor(0.0))
    tensor(-0.2628)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "concentration")

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - E[cos(x - loc)]."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - i0e(k).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            k = self.concentration.to(dtypes.float64).expand(shape)
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))  # its Taylor series near 0
            angles, done = zeros_like(k), zeros_like(k).to(dtypes.bool)
            while not bool(done.all()):
                u = rand((3, *shape), dtype=dtypes.float64, device=k.device)
                z = (math.pi * u[0]).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accepted = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
                drawn = (u[2] - 0.5).sign() * f.clamp(min=-1, max=1).acos()
                angles = where(accepted & ~done, drawn, angles)
                done = done | accepted
            turned = (angles + math.pi + self.loc.to(dtypes.float64)) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)
