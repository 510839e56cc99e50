"""All transforms: those of each number by itself (`scalar_transforms`), and here those of vectors and matrices: stick breaking, triangular and
correlation matrices, joined and stacked maps, and distribution functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.base.shapes import Size
from dynograd.distributions import constraints, scalar_transforms
from dynograd.distributions.independent import sum_rightmost
from dynograd.distributions.scalar_transforms import *  # noqa: F403
from dynograd.distributions.scalar_transforms import Transform, _clipped_sigmoid, _InverseTransform
from dynograd.distributions.utils import clamp_probs, tril_matrix_to_vec, vec_to_tril_matrix
from dynograd.ops.elementwise.activations import logsigmoid, sigmoid, softplus
from dynograd.ops.layout.joins import cat, stack
from dynograd.ops.layout.paddings import pad
from dynograd.tensor.creation import arange
from dynograd.tensor.tensor import Tensor

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "StackTransform",
    "StickBreakingTransform",
    *scalar_transforms.__all__,
]

assert _InverseTransform is not None and _clipped_sigmoid is not None  # which packages import from here


class StickBreakingTransform(Transform):
    """From K real numbers to K + 1 shares: each takes a part, by the sigmoid, of what those before left.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.StickBreakingTransform()(dynograd.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _offsets(self, size: int, like: Tensor) -> Tensor:
        return (size - arange(size, dtype=like.dtype, device=like.device)).log()

    def _call(self, x: Tensor) -> Tensor:
        z = clamp_probs(sigmoid(x - self._offsets(x.shape[-1], x)))
        left = (1 - z).cumprod(-1)
        return pad(z, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=1e-30)
        return head.log() - left.log() + self._offsets(head.shape[-1], y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._offsets(x.shape[-1], x)
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """From square matrices to lower triangular ones with a positive diagonal, by exp of the diagonal.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.LowerCholeskyTransform()(dynograd.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From square matrices to positive definite ones: L L^T of their `LowerCholeskyTransform`.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.PositiveDefiniteTransform()(tensor([[0.0, 5.0], [1.0, 0.0]]))
    tensor([[1., 1.],
            [1., 2.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        root = LowerCholeskyTransform()(x)
        return root @ root.mT

    def _inverse(self, y: Tensor) -> Tensor:
        from dynograd.ops.linalg.linear_systems import linalg_cholesky

        return LowerCholeskyTransform().inv(linalg_cholesky(y))


class CorrCholeskyTransform(Transform):
    """From D (D - 1) / 2 real numbers to the lower root of a (D, D) correlation matrix, by tanh and stick breaking of each row.

    Args:
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> dynograd.distributions.CorrCholeskyTransform()(dynograd.zeros(3))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        r = self._clamped(x.tanh())
        r = vec_to_tril_matrix(r, diag=-1)
        left = (1 - r**2).sqrt().cumprod(-1)
        r = r + (r.detach() * 0)[..., 0].add(1).diag_embed()
        return r * pad(left[..., :-1], [1, 0], value=1)

    @staticmethod
    def _clamped(r: Tensor) -> Tensor:
        from dynograd.base import dtypes

        epsilon = float(dtypes.finfo(r.dtype).eps)
        return r.clamp(min=-1 + epsilon, max=1 - epsilon)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        left = pad(left[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: object = None) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        shares = tril_matrix_to_vec(left, diag=-2)
        return 0.5 * shares.log().sum(-1) - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError(
                f"CorrCholeskyTransform: input size {count} is not a flattened lower-diagonal number D(D-1)/2."
            )
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ValueError(f"CorrCholeskyTransform: expected square matrices, got shape {tuple(shape)}.")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class ReshapeTransform(Transform):
    """The same numbers in another shape: values of `in_shape` become values of `out_shape`.

    Args:
        in_shape: shape of the last dims of x.
        out_shape: shape that these dims have in y, of as many elements.
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.
    Raises:
        ValueError: the numbers of elements differ.

    >>> dynograd.distributions.ReshapeTransform((4,), (2, 2))(dynograd.arange(4.0))
    tensor([[0., 1.],
            [2., 3.]])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(
                f"in_shape, out_shape have different numbers of elements: {tuple(in_shape)}, {tuple(out_shape)}."
            )
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(*self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(*self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(tuple(x.shape[: x.ndim - len(self.in_shape)]))

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._changed(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._changed(shape, self.out_shape, self.in_shape)

    @staticmethod
    def _changed(shape: Any, old: Any, new: Any) -> Size:
        cut = len(shape) - len(old)
        if cut < 0 or tuple(shape[cut:]) != tuple(old):
            raise ValueError(
                f"ReshapeTransform: shape mismatch: expected the last dims to be {tuple(old)}, got {tuple(shape)}."
            )
        return Size((*shape[:cut], *new))


class _Several(Transform):
    """Maps of parts along `dim`."""

    def __init__(self, tseq: Any, dim: int, cache_size: int) -> None:
        if not all([isinstance(transform, Transform) for transform in tseq]):
            raise TypeError(f"{type(self).__name__}: expected a list of Transforms, got {list(tseq)}.")
        super().__init__(cache_size)
        self.transforms = [transform.with_cache(cache_size) for transform in tseq] if cache_size else list(tseq)
        self.dim = dim
        self.bijective = all([transform.bijective for transform in self.transforms])

    def _parts(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([transform(part) for transform, part in zip(self.transforms, self._parts(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join(
            [transform._inv_call(part) for transform, part in zip(self.transforms, self._parts(y), strict=True)]
        )


class CatTransform(_Several):
    """Several maps, each of its `lengths` places along `dim`.

    Args:
        tseq: the maps.
        dim: along which the parts lie.
        lengths: how many places each map gets; None is 1 each.
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> from dynograd.distributions import CatTransform, ExpTransform, identity_transform
    >>> CatTransform([identity_transform, ExpTransform()], lengths=[2, 1])(dynograd.zeros(3))
    tensor([0., 0., 1.])
    """

    def __init__(self, tseq: Any, dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"CatTransform: got {len(self.transforms)} transforms but {len(self.lengths)} lengths.")
        self.domain = constraints.cat([transform.domain for transform in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([transform.codomain for transform in self.transforms], dim, self.lengths)
        self._events = max([transform.event_dim for transform in self.transforms], default=0)

    @property
    def event_dim(self) -> int:
        return self._events

    @property
    def length(self) -> int:
        """Places along `dim`.

        >>> from dynograd.distributions import CatTransform, ExpTransform
        >>> CatTransform([ExpTransform(), ExpTransform()], lengths=[2, 1]).length
        3
        """
        return sum(self.lengths)

    def _parts(self, x: Tensor) -> list[Tensor]:
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != self.length:
            raise ValueError(
                f"CatTransform: expected {self.length} places along dim {self.dim}, got shape {tuple(x.shape)}."
            )
        return list(x.split(self.lengths, self.dim))

    def _join(self, parts: list[Tensor]) -> Tensor:
        return cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logs = []
        for transform, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            logs.append(
                sum_rightmost(transform.log_abs_det_jacobian(before, after), self.event_dim - transform.event_dim)
            )
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim
        if dim + self.event_dim < 0:
            return cat(logs, dim + self.event_dim)
        total: Any = 0
        for each in logs:
            total = total + each
        return total


class StackTransform(_Several):
    """Several maps, one for each place along `dim`.

    Args:
        tseq: the maps, as many as there are places.
        dim: along which they lie.
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> from dynograd.distributions import ExpTransform, StackTransform, identity_transform
    >>> StackTransform([identity_transform, ExpTransform()], dim=1)(dynograd.zeros(2, 2))
    tensor([[0., 1.],
            [0., 1.]])
    """

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.domain = constraints.stack([transform.domain for transform in self.transforms], dim)
        self.codomain = constraints.stack([transform.codomain for transform in self.transforms], dim)

    def _parts(self, x: Tensor) -> list[Tensor]:
        if not -x.ndim <= self.dim < x.ndim or x.shape[self.dim] != len(self.transforms):
            raise ValueError(
                f"StackTransform: expected {len(self.transforms)} places along dim {self.dim}, got shape {tuple(x.shape)}."
            )
        return list(x.unbind(self.dim))

    def _join(self, parts: list[Tensor]) -> Tensor:
        return stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        both = zip(self.transforms, self._parts(x), self._parts(y), strict=True)
        return stack([transform.log_abs_det_jacobian(before, after) for transform, before, after in both], self.dim)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution of numbers: its values become uniform.

    Args:
        distribution: a distribution of numbers with `cdf` and `icdf`.
        cache_size: 1 keeps the last (x, y), so that the inverse of y is x itself; 0 keeps nothing.

    >>> t = dynograd.distributions.CumulativeDistributionTransform(dynograd.distributions.Exponential(1.0))
    >>> t(tensor([0.0, 1.0]))
    tensor([0.0000, 0.6321])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        """The support of the distribution."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
