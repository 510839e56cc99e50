"""Dropout as modules; in evaluation mode they pass their input through."""

from __future__ import annotations

from typing import Any

from dynograd.nn import functional as F
from dynograd.nn.checks import check_number
from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """Probability, mode and text of every dropout."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        check_number(type(self).__name__, "p", p)
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: dropout probability has to be between 0 and 1, but got {p}.")
        self.p, self.inplace = p, inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p); in evaluation the input passes unchanged.

    Args:
        p: the probability, from 0 to 1.
        inplace: overwrite the input.
    Shape: input of any shape, also ragged; gives the same shape.
    Raises:
        ValueError: p is outside [0, 1].
    Source: Hinton et al., Improving neural networks by preventing co-adaptation of feature detectors, 2012 (arXiv:1207.0580).

    >>> _ = dynograd.manual_seed(0)
    >>> dynograd.nn.Dropout(0.5)(dynograd.ones(4))
    tensor([0., 2., 2., 2.])
    >>> dynograd.nn.Dropout(0.5).eval()(dynograd.ones(4))
    tensor([1., 1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels with probability p and scales the rest by 1 / (1 - p); in evaluation the input passes unchanged.

    Args:
        p: the probability, from 0 to 1.
        inplace: overwrite the input.
    Shape: input (N, C, L) or (C, L); gives the same shape.
    Raises:
        ValueError: p is outside [0, 1].
    Source: Tompson et al., Efficient object localization using convolutional networks, 2014 (arXiv:1411.4280).

    >>> _ = dynograd.manual_seed(0)
    >>> dynograd.nn.Dropout1d(0.5)(dynograd.ones(1, 2, 3))
    tensor([[[0., 0., 0.],
             [2., 2., 2.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels with probability p and scales the rest by 1 / (1 - p); in evaluation the input passes unchanged.

    Args:
        p: the probability, from 0 to 1.
        inplace: overwrite the input.
    Shape: input (N, C, H, W) or (C, H, W); gives the same shape.
    Raises:
        ValueError: p is outside [0, 1].
    Source: Tompson et al., Efficient object localization using convolutional networks, 2014 (arXiv:1411.4280).

    >>> _ = dynograd.manual_seed(0)
    >>> dynograd.nn.Dropout2d(0.5)(dynograd.ones(1, 2, 1, 3))
    tensor([[[[0., 0., 0.]],
    <BLANKLINE>
             [[2., 2., 2.]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels with probability p and scales the rest by 1 / (1 - p); in evaluation the input passes unchanged.

    Args:
        p: the probability, from 0 to 1.
        inplace: overwrite the input.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives the same shape.
    Raises:
        ValueError: p is outside [0, 1].
    Source: Tompson et al., Efficient object localization using convolutional networks, 2014 (arXiv:1411.4280).

    >>> _ = dynograd.manual_seed(0)
    >>> dynograd.nn.Dropout3d(0.5)(dynograd.ones(1, 2, 1, 1, 2))
    tensor([[[[[0., 0.]]],
    <BLANKLINE>
    <BLANKLINE>
             [[[2., 2.]]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, for `SELU`: dropped elements become its lower limit, and an affine map restores both.

    Args:
        p: the probability, from 0 to 1.
        inplace: overwrite the input.
    Shape: input of any shape; gives the same shape.
    Raises:
        ValueError: p is outside [0, 1].
    Source: Klambauer et al., Self-normalizing neural networks, 2017 (arXiv:1706.02515).

    >>> _ = dynograd.manual_seed(0)
    >>> dynograd.nn.AlphaDropout(0.5)(dynograd.zeros(4))
    tensor([-0.7792,  0.7792,  0.7792,  0.7792])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels (dim 1).

    Args:
        p: the probability, from 0 to 1.
        inplace: overwrite the input.
    Shape: input (N, C, *); gives the same shape.
    Raises:
        ValueError: p is outside [0, 1].
    Source: Klambauer et al., Self-normalizing neural networks, 2017 (arXiv:1706.02515).

    >>> _ = dynograd.manual_seed(0)
    >>> dynograd.nn.FeatureAlphaDropout(0.5)(dynograd.zeros(1, 2, 2))
    tensor([[[-0.7792, -0.7792],
             [ 0.7792,  0.7792]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)


def added(residual: Any, dropout: Any, input: Tensor) -> Tensor:
    """`residual + dropout(input)`, in one pass where `dropout` is a plain one that nobody watches."""
    if type(dropout) is Dropout and not (dropout.inplace or dropout._hooked):
        return F.dropout_add(input, residual, dropout.p, dropout.training)
    return residual + dropout(input)
