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
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p).

    Source: Hinton et al., Improving neural networks by preventing co-adaptation of feature detectors, 2012 (arXiv:1207.0580).
    """

    def forward(self, input: Any) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of (N, C, L)."""

    def forward(self, input: Any) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of (N, C, H, W)."""

    def forward(self, input: Any) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of (N, C, D, H, W)."""

    def forward(self, input: Any) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of self-normalising inputs."""

    def forward(self, input: Any) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    def forward(self, input: Any) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)


def added(residual: Any, dropout: Any, input: Any) -> Tensor:
    """`residual + dropout(input)`, in one pass where `dropout` is a plain one that nobody watches."""
    if type(dropout) is Dropout and not (dropout.inplace or dropout._hooked):
        return F.dropout_add(input, residual, dropout.p, dropout.training)
    return residual + dropout(input)
