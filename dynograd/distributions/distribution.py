"""What every distribution is: a batch of random variables (`batch_shape`), each a value of `event_shape`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from dynograd import arrays
from dynograd.autograd import enable_grad, no_grad
from dynograd.base.shapes import Size
from dynograd.base.signatures import without_private
from dynograd.base.values import has_values
from dynograd.distributions import constraints
from dynograd.distributions.utils import broadcast_all, lazy_property
from dynograd.errors import user_level
from dynograd.interpreter.differentiation import grad
from dynograd.kernels import kernel
from dynograd.tensor.tensor import Tensor

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """The base of all distributions.

    Args:
        batch_shape: shape of the batch of independent variables.
        event_shape: shape of one value.
        validate_args: whether parameters and values are checked; None is the default, see `set_default_validate_args`.

    >>> m = dynograd.distributions.Normal(dynograd.zeros(3), 1.0)
    >>> m.batch_shape, m.event_shape, m.sample((2,)).shape
    (dynograd.Size([3]), dynograd.Size([]), dynograd.Size([2, 3]))
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Any = {}
    support: Any = constraints.dependent
    _validate_args = __debug__

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Distribution:
        """The instance that `expand` of `cls` fills: `_instance`, or an empty one of this type.

        Raises:
            NotImplementedError: a derived class has an `__init__` of its own and must write `expand`, too.
        """
        own, base = vars(type(self)).get("__init__"), vars(cls).get("__init__")
        if _instance is None and type(self) is not cls and own is not None and own is not base:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also define a custom "
                f".expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue  # not given by the caller
            value = getattr(self, name)
            _check_all(
                constraint.check(value.detach()),
                lambda name=name, value=value, constraint=constraint: (
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                ),
            )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from now on check their arguments (unless they are told with `validate_args`).

        Args:
            value: True or False. Checks cost a reduction for each parameter and value.
        Raises:
            ValueError: `value` is something else.

        >>> dynograd.distributions.Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}.")
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch of independent variables.

        >>> dynograd.distributions.Normal(dynograd.zeros(3), 1.0).batch_shape
        dynograd.Size([3])
        """
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one value.

        >>> dynograd.distributions.Dirichlet(dynograd.ones(4)).event_shape
        dynograd.Size([4])
        """
        return self._event_shape

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution with its batch broadcast to `batch_shape`.

        Args:
            batch_shape: the new shape of the batch; the old one must broadcast to it.
        Returns:
            A distribution of the same type, whose parameters are views.
        Raises:
            NotImplementedError: a subclass with an `__init__` of its own does not define `expand`.

        >>> dynograd.distributions.Normal(0.0, 1.0).expand((2, 3)).batch_shape
        dynograd.Size([2, 3])
        """
        raise NotImplementedError(f"{type(self).__name__}: expand is not defined.")

    @property
    def mean(self) -> Tensor:
        """The expectation, (*batch_shape, *event_shape); NaN or infinite where there is none.

        Raises:
            NotImplementedError: the distribution does not define it.

        >>> dynograd.distributions.Exponential(4.0).mean
        tensor(0.2500)
        """
        raise NotImplementedError(f"{type(self).__name__}: mean is not defined.")

    @property
    def mode(self) -> Tensor:
        """The most probable value, or the place of the highest density, (*batch_shape, *event_shape).

        Raises:
            NotImplementedError: the distribution does not define it.

        >>> dynograd.distributions.Gamma(3.0, 2.0).mode
        tensor(1.)
        """
        raise NotImplementedError(f"{type(self).__name__}: mode is not defined.")

    @property
    def variance(self) -> Tensor:
        """The variance of each element of a value, (*batch_shape, *event_shape); NaN or infinite where there is none.

        Raises:
            NotImplementedError: the distribution does not define it.

        >>> dynograd.distributions.Uniform(0.0, 6.0).variance
        tensor(3.)
        """
        raise NotImplementedError(f"{type(self).__name__}: variance is not defined.")

    @property
    def stddev(self) -> Tensor:
        """Square root of the variance, (*batch_shape, *event_shape).

        >>> dynograd.distributions.Uniform(0.0, 6.0).stddev
        tensor(1.7321)
        """
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values, without gradient.

        Args:
            sample_shape: shape of the sample; () is one value of each variable.
        Returns:
            (*sample_shape, *batch_shape, *event_shape).

        >>> dynograd.distributions.Bernoulli(tensor([0.0, 1.0])).sample((2,))
        tensor([[0., 1.],
                [0., 1.]])
        """
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, under its old name.

        Args:
            n: how many.
        Returns:
            (n, *batch_shape, *event_shape).
        """
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=user_level())
        return self.sample((n,))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Random values with gradients that flow into the parameters (the reparametrisation trick).

        Args:
            sample_shape: shape of the sample; () is one value of each variable.
        Returns:
            (*sample_shape, *batch_shape, *event_shape).
        Raises:
            NotImplementedError: values of this distribution have no gradient (`has_rsample` is False).

        >>> mean = tensor(2.0, requires_grad=True)
        >>> dynograd.distributions.Normal(mean, 1.0).rsample((3,)).sum().backward()
        >>> mean.grad
        tensor(3.)
        """
        raise NotImplementedError(
            f"{type(self).__name__}: rsample is not defined, its values have no gradient. Use sample() and log_prob()."
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Natural logarithm of the density, or of the probability for discrete values.

        Args:
            value (..., *batch_shape, *event_shape): broadcast against the batch.
        Returns:
            (..., *batch_shape).
        Raises:
            ValueError: a value lies outside `support` (where arguments are checked).
            NotImplementedError: the distribution does not define it.

        >>> dynograd.distributions.Uniform(0.0, 4.0).log_prob(tensor([1.0, 3.0]))
        tensor([-1.3863, -1.3863])
        """
        raise NotImplementedError(f"{type(self).__name__}: log_prob is not defined.")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a value <= `value`, between 0 and 1.

        Args:
            value (..., *batch_shape): broadcast against the batch.
        Returns:
            (..., *batch_shape).
        Raises:
            NotImplementedError: the distribution does not define it.

        >>> dynograd.distributions.Normal(0.0, 1.0).cdf(tensor([0.0, 1.96]))
        tensor([0.5000, 0.9750])
        """
        raise NotImplementedError(f"{type(self).__name__}: cdf is not defined.")

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which the probability is `value`: the inverse of `cdf`.

        Args:
            value (..., *batch_shape): probabilities, 0 to 1.
        Returns:
            (..., *batch_shape).
        Raises:
            NotImplementedError: the distribution does not define it.

        >>> dynograd.distributions.Normal(0.0, 1.0).icdf(tensor([0.5, 0.975]))
        tensor([0.0000, 1.9600])
        """
        raise NotImplementedError(f"{type(self).__name__}: icdf is not defined.")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a finite discrete distribution, along a new first dim.

        Args:
            expand: repeat the values over the batch; otherwise its dims have size 1.
        Returns:
            (number of values, *batch_shape, *event_shape).
        Raises:
            NotImplementedError: the distribution is not a finite discrete one.

        >>> dynograd.distributions.Bernoulli(tensor([0.5, 0.1])).enumerate_support()
        tensor([[0., 0.],
                [1., 1.]])
        """
        raise NotImplementedError(f"{type(self).__name__}: enumerate_support is not defined.")

    def entropy(self) -> Tensor:
        """The expected negative log-probability, in nats.

        Returns:
            (*batch_shape).
        Raises:
            NotImplementedError: the distribution does not define it.

        >>> dynograd.distributions.Bernoulli(0.5).entropy()
        tensor(0.6931)
        """
        raise NotImplementedError(f"{type(self).__name__}: entropy is not defined.")

    def perplexity(self) -> Tensor:
        """exp(entropy): how many equally probable values would be as uncertain.

        Returns:
            (*batch_shape).

        >>> dynograd.distributions.Categorical(tensor([0.25, 0.25, 0.5])).perplexity()
        tensor(2.8284)
        """
        return self.entropy().exp()

    # --- for the families ---------------------------------------------------------------------------------------------------

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        return Size((*shape, *self._batch_shape, *self._event_shape))

    def _expanded(self, batch_shape: Any, _instance: Any, *names: str, event: Any = ()) -> Any:
        """A new object whose parameters `names` are expanded; those not yet computed stay uncomputed."""
        expanded = _instance if _instance is not None else object.__new__(type(self))
        for name in names:
            if name in self.__dict__:
                setattr(expanded, name, getattr(self, name).expand((*batch_shape, *event)))
        expanded._batch_shape, expanded._event_shape = Size(batch_shape), self._event_shape
        expanded._validate_args = self._validate_args
        return expanded

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = len(self._event_shape)
        if tuple(value.shape[value.ndim - events :]) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        expected = (*self._batch_shape, *self._event_shape)
        for size, expected_size in zip(reversed(tuple(value.shape)), reversed(expected)):
            if size != 1 and expected_size != 1 and size != expected_size:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {tuple(expected)}."
                )
        support = self.support
        if support is None or constraints.is_dependent(support):
            return
        _check_all(
            support.check(value.detach()),
            lambda: (
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            ),
        )

    def __repr__(self) -> str:
        parameters = [(name, self.__dict__[name]) for name in self.arg_constraints if name in self.__dict__]
        shown = [f"{name}: {value if value.numel() == 1 else tuple(value.shape)}" for name, value in parameters]
        return f"{type(self).__name__}({', '.join(shown)})"


def _check_all(fits: Any, told: Any) -> None:
    """Raises `ValueError(told())` where an element of `fits` is False: now, or when it is known."""

    def check(known: Any) -> None:
        if not kernel("reductions", "all", known)(known, None, False):
            raise ValueError(told())

    if arrays.checked_later(fits.array, check):
        return
    if has_values(fits):
        check(fits.array)
    elif not fits.all():
        raise ValueError(told())


class LocationScale(Distribution):
    """Numbers `loc + scale * x`, where x has a distribution without parameters whose density is highest at 0.

    Args:
        loc: where the distribution lies; broadcast against `scale`.
        scale: positive; how wide it is.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Raises:
        ValueError: a parameter is out of range (where arguments are checked).
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @without_private
    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return self._expanded(batch_shape, _instance, "loc", "scale")

    @property
    def mode(self) -> Any:
        return self.loc


class ExponentialFamily(Distribution):
    """Distributions with density exp(t(x) · theta - F(theta) + k(x)); a program's own get their entropy from theta and F.

    A subclass gives `_natural_params` (a tuple of tensors), `_log_normalizer(*natural_params)` and `_mean_carrier_measure`.

    Args:
        batch_shape: shape of the batch of independent variables.
        event_shape: shape of one value.
        validate_args: check parameters and values; None is the default, see `Distribution.set_default_validate_args`.
    Source: Nielsen and Nock, Entropies and cross-entropies of exponential families, 2010.

    >>> class Waiting(dynograd.distributions.ExponentialFamily):
    ...     _mean_carrier_measure = 0
    ...     _natural_params = property(lambda self: (tensor(-2.0),))
    ...     _log_normalizer = staticmethod(lambda theta: -(-theta).log())
    >>> Waiting().entropy(), dynograd.distributions.Exponential(2.0).entropy()
    (tensor(0.3069, grad_fn=<SubBackward0>), tensor(0.3069))
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__}: _natural_params must be given for the entropy.")

    def _log_normalizer(self, *natural_params: Any, **options: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: _log_normalizer must be given for the entropy.")

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError(f"{type(self).__name__}: _mean_carrier_measure must be given for the entropy.")

    def _normalizer_with_gradients(self) -> tuple[Tensor, list[Tensor], Sequence[Any]]:
        """F(theta), theta and the gradient of F there; none of them has a history to the distribution's parameters."""
        with enable_grad():
            parameters = [parameter.detach().requires_grad_() for parameter in self._natural_params]
            normalizer = self._log_normalizer(*parameters)
            return normalizer, parameters, grad(normalizer.sum(), parameters, create_graph=True)

    def entropy(self) -> Tensor:
        """F(theta) - theta · grad F(theta) - E[k(x)] in nats, by the gradient of the log normalizer.

        Returns:
            (*batch_shape).
        """
        normalizer, parameters, gradients = self._normalizer_with_gradients()
        result = normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(parameters, gradients):
            product = parameter * gradient
            result = result - product.reshape(self.batch_shape + (-1,)).sum(-1)
        return result
