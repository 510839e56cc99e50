"""Distributions of f(X): the base's log-probability less log |df/dx|."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.autograd import no_grad
from dynograd.base.signatures import without_private
from dynograd.distributions import constraints
from dynograd.distributions.distribution import Distribution
from dynograd.distributions.independent import Independent, sum_rightmost
from dynograd.distributions.normal import Normal
from dynograd.distributions.scalar_transforms import ComposeTransform, ExpTransform, Transform
from dynograd.tensor.tensor import Tensor

__all__ = ["LogNormal", "TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of values of `base_distribution` after the `transforms`, the first one first.

    Args:
        base_distribution: a distribution whose values the first map takes.
        transforms: a `Transform` or a list of them.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: something in `transforms` is no `Transform`, or values have fewer dims than the first map takes.

    >>> from dynograd.distributions import AffineTransform, Normal, TransformedDistribution
    >>> m = TransformedDistribution(Normal(0.0, 1.0), [AffineTransform(2.0, 3.0)])
    >>> m.log_prob(tensor(2.0))
    tensor(-2.0176)
    """

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None) -> None:
        listed = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(listed, list) or not all([isinstance(transform, Transform) for transform in listed]):
            raise ValueError(f"transforms must be a Transform or list of Transforms, but was {transforms}")
        self.transforms = listed
        whole = ComposeTransform(listed)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        grown = len(base_distribution.event_shape)
        if whole.event_dim > len(shape):
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.event_dim}, but got {tuple(shape)}."
            )
        if whole.event_dim > grown:
            base_distribution = Independent(base_distribution, whole.event_dim - grown)
            grown = whole.event_dim
        self.base_dist = base_distribution
        image = tuple(whole.forward_shape(shape))
        super().__init__(image[: len(image) - grown], image[len(image) - grown :], validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        expanded = self._expanded(batch_shape, _instance)
        expanded.base_dist = self.base_dist.expand(batch_shape)
        expanded.transforms = self.transforms
        return expanded

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        """Where values lie: the image of the last map."""
        if not self.transforms:
            return self.base_dist.support
        codomain = self.transforms[-1].codomain
        more = len(self.event_shape) - codomain.event_dim
        return constraints.independent(codomain, more) if more > 0 else codomain

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether values have a gradient: whether those of the base have."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        log_prob: Any = 0.0
        events, y = len(self.event_shape), value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            log_prob = log_prob - sum_rightmost(transform.log_abs_det_jacobian(x, y), events - transform.event_dim)
            y = x
        return log_prob + sum_rightmost(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))

    def _monotone(self, value: Tensor) -> Tensor:
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotone(value)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms})"


class LogNormal(TransformedDistribution):
    """Numbers whose logarithm is normal of mean `loc` and standard deviation `scale`.

    Args:
        loc: mean of the logarithm.
        scale: its standard deviation, positive; the two broadcast.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).

    >>> dynograd.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        return (self.scale**2).expm1() * (2 * self.loc + self.scale**2).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
