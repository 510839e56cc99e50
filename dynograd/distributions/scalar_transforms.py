"""Invertible maps with their log |dy/dx|, for TransformedDistribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.base.dtypes import finfo
from dynograd.base.shapes import Size
from dynograd.distributions import constraints
from dynograd.distributions.independent import sum_rightmost
from dynograd.ops.elementwise.activations import sigmoid, softplus
from dynograd.ops.norm.softmaxes import softmax
from dynograd.tensor.tensor import Tensor

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ComposeTransform",
    "ExpTransform",
    "IndependentTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """A map with `inv` and `log_abs_det_jacobian`; a subclass writes `_call`, `_inverse` and that.

    `domain` and `codomain` are the constraints of x and y, `bijective` says whether the map is one to one.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> from dynograd.distributions import transforms
    >>> t = transforms.ExpTransform()
    >>> t(tensor(0.0)), t.inv(tensor(1.0))
    (tensor(1.), tensor(0.))
    """

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()  # a module, say: classes derive from both

    @property
    def event_dim(self) -> int:
        """How many dims at the end of the values are one value: 0 for maps of numbers, 1 for maps of vectors.

        >>> dynograd.distributions.SoftmaxTransform().event_dim
        1
        """
        return max(self.domain.event_dim, self.codomain.event_dim)

    @property
    def sign(self) -> Any:
        """+1 where the map rises, -1 where it falls.

        Raises:
            NotImplementedError: the map does neither everywhere.

        >>> dynograd.distributions.AffineTransform(0.0, -2.0).sign
        -1
        """
        raise NotImplementedError(f"{type(self).__name__}: sign is not defined, the map is not monotone in one dim.")

    @property
    def inv(self) -> Transform:
        """The inverse map.

        >>> dynograd.distributions.ExpTransform().inv(tensor(1.0))
        tensor(0.)
        """
        return _Inverse(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same map with the last result kept or not.

        Args:
            cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.
        Returns:
            The map itself when it has that size of cache, else a new one.

        >>> dynograd.distributions.ExpTransform().with_cache()
        ExpTransform()
        """
        import copy

        transform = copy.copy(self)
        transform._cache_size, transform._cached_x_y = cache_size, (None, None)
        return transform

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size and self._cached_x_y[0] is x:
            return self._cached_x_y[1]
        y = self._call(x)
        if self._cache_size:
            self._cached_x_y = (x, y)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size and self._cached_x_y[1] is y:
            return self._cached_x_y[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached_x_y = (x, y)
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: _call is not defined.")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: _inverse is not defined.")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy/dx| at x, of which y is the image; for vectors log |det| of the matrix of derivatives.

        Args:
            x (..., *event): values.
            y (..., *event): their image.
        Returns:
            (...), one number for each value.
        Raises:
            NotImplementedError: the map has none, as one that is not one to one.

        >>> t, x = dynograd.distributions.ExpTransform(), tensor([0.0, 2.0])
        >>> t.log_abs_det_jacobian(x, t(x))
        tensor([0., 2.])
        """
        raise NotImplementedError(f"{type(self).__name__}: log_abs_det_jacobian is not defined.")

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """The shape of the image of values of `shape`.

        Args:
            shape: a shape.
        Returns:
            A `Size`.
        Raises:
            ValueError: values of the map have another shape.

        >>> dynograd.distributions.StickBreakingTransform().forward_shape((5, 2))
        dynograd.Size([5, 3])
        """
        return Size(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """The shape that has an image of `shape`.

        Args:
            shape: a shape.
        Returns:
            A `Size`.
        Raises:
            ValueError: images of the map have another shape.

        >>> dynograd.distributions.StickBreakingTransform().inverse_shape((5, 3))
        dynograd.Size([5, 2])
        """
        return Size(shape)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and not self._state() and not other._state())

    __hash__ = object.__hash__

    def _state(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_cache_size", "_cached_x_y")}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._forward = transform
        self.bijective = transform.bijective
        self.domain, self.codomain = transform.codomain, transform.domain

    @property
    def sign(self) -> Any:
        return self._forward.sign

    @property
    def inv(self) -> Transform:
        return self._forward

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._forward(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._forward.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._forward!r})"


class ComposeTransform(Transform):
    """Several maps, the first one first.

    Args:
        parts: the maps.
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> from dynograd.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])(tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        self.bijective = all([part.bijective for part in parts])
        self.domain = self.parts[0].domain if self.parts else constraints.real
        self.codomain = self.parts[-1].codomain if self.parts else constraints.real
        self._events = max([part.event_dim for part in self.parts], default=0)

    @property
    def event_dim(self) -> int:
        return self._events

    @property
    def sign(self) -> Any:
        product: Any = 1
        for part in self.parts:
            product = product * part.sign
        return product

    @property
    def inv(self) -> Transform:
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x * 0
        total: Any = 0
        for place, part in enumerate(self.parts):
            image = y if place == len(self.parts) - 1 else part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, image), self.event_dim - part.event_dim)
            x = image
        return total

    def forward_shape(self, shape: Sequence[int]) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return Size(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return Size(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


class IndependentTransform(Transform):
    """A map whose log |dy/dx| is summed over some more dims.

    Args:
        base_transform: the map.
        reinterpreted_batch_ndims: how many dims more are one value.
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> from dynograd.distributions import ExpTransform, IndependentTransform
    >>> x = tensor([1.0, 2.0])
    >>> IndependentTransform(ExpTransform(), 1).log_abs_det_jacobian(x, x.exp())
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ExpTransform(Transform):
    """y = exp(x), from all real numbers to the positive ones.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.ExpTransform()(tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    bijective = True
    codomain = constraints.positive
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, for positive x.

    Args:
        exponent: not 0; a number or a tensor.
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.PowerTransform(2.0)(tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    bijective = True
    domain = codomain = constraints.positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        return self.exponent.sign() if isinstance(self.exponent, Tensor) else (1 if self.exponent > 0 else -1)

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """The sigmoid, kept a step away from 0 and 1, so that it can be inverted."""
    limits = finfo(x.dtype)
    return sigmoid(x).clamp(float(limits.tiny), 1.0 - float(limits.eps))


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)), from all real numbers to those between 0 and 1; a step away from these where it would be 0 or 1.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.SigmoidTransform()(tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        from dynograd.distributions.utils import clamp_probs

        y = clamp_probs(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x)), from all real numbers to the positive ones.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.SoftplusTransform()(tensor([-2.0, 0.0, 2.0]))
    tensor([0.1269, 0.6931, 2.1269])
    """

    bijective = True
    codomain = constraints.positive
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x), from all real numbers to those between -1 and 1.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.TanhTransform()(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    bijective = True
    codomain = constraints.interval(-1.0, 1.0)
    sign = +1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; not one to one, the inverse takes the positive half.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.AbsTransform()(tensor([-2.0, 1.0]))
    tensor([2., 1.])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x; the last `event_dim` dims are one value.

    Args:
        loc: a number or a tensor.
        scale: not 0; a number or a tensor.
        event_dim: how many dims of a value.
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.AffineTransform(1.0, 2.0)(tensor([0.0, 3.0]))
    tensor([1., 7.])
    """

    bijective = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        self.domain = self.codomain = (
            constraints.independent(constraints.real, event_dim) if event_dim else constraints.real
        )

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def sign(self) -> Any:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            each = self.scale.abs().log().expand_as(x) if x.ndim >= self.scale.ndim else self.scale.abs().log()
        else:
            each = x.detach() * 0 + math.log(abs(self.scale))
        return sum_rightmost(each, self.event_dim)


class SoftmaxTransform(Transform):
    """From real vectors to the simplex by exp and norming; not one to one, `inv` takes the logarithm.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.SoftmaxTransform()(tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return softmax(x, dim=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


identity_transform = ComposeTransform([])


_InverseTransform = _Inverse
