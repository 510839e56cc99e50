"""Dropout as modules; in evaluation mode they pass their input through."""

from __future__ import annotations

from typing import Any

from dynograd.nn import functional as F
from dynograd.nn.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    """Calls `function` with p, the mode and inplace."""

    function: str

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: dropout probability has to be between 0 and 1, but got {p}.")
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        return getattr(F, self.function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p).

    Source: Hinton et al., Improving neural networks by preventing co-adaptation of feature detectors, 2012 (arXiv:1207.0580).
    """

    function = "dropout"


class Dropout1d(_Dropout):
    """Zeroes whole channels of (N, C, L)."""

    function = "dropout1d"


class Dropout2d(_Dropout):
    """Zeroes whole channels of (N, C, H, W)."""

    function = "dropout2d"


class Dropout3d(_Dropout):
    """Zeroes whole channels of (N, C, D, H, W)."""

    function = "dropout3d"


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of self-normalising inputs."""

    function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels."""

    function = "feature_alpha_dropout"
