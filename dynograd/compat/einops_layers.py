"""Layers of einops for dynograd, importable as `einops.layers.dynograd`: what `einops.layers.torch` has."""

from __future__ import annotations

from typing import Any

from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

from dynograd import nn
from dynograd.ops.matmul.contractions import einsum
from dynograd.tensor.creation import empty
from dynograd.tensor.tensor import Tensor

__all__ = ["EinMix", "Rearrange", "Reduce"]


class Rearrange(RearrangeMixin, nn.Module):
    """`einops.rearrange` as a layer.

    >>> from einops.layers.dynograd import Rearrange
    >>> Rearrange("b (h w) c -> b c h w", h=2)(dynograd.zeros(1, 6, 4)).shape
    dynograd.Size([1, 4, 2, 3])
    """

    def forward(self, input: Any) -> Tensor:
        return self._apply_recipe(input)


class Reduce(ReduceMixin, nn.Module):
    """`einops.reduce` as a layer.

    >>> from einops.layers.dynograd import Reduce
    >>> Reduce("b c h w -> b c", "mean")(dynograd.ones(1, 3, 4, 4))
    tensor([[1., 1., 1.]])
    """

    def forward(self, input: Any) -> Tensor:
        return self._apply_recipe(input)


class EinMix(_EinmixMixin, nn.Module):
    """A linear layer by a pattern; its weight and bias start uniform, as einops bounds them.

    >>> from einops.layers.dynograd import EinMix
    >>> EinMix("t b c -> t b d", weight_shape="c d", bias_shape="d", c=4, d=5)(dynograd.zeros(2, 3, 4)).shape
    dynograd.Size([2, 3, 5])
    """

    def _create_parameters(self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float) -> None:
        self.weight = nn.Parameter(empty(*weight_shape).uniform_(-weight_bound, weight_bound))
        self.bias = None
        if bias_shape is not None:
            self.bias = nn.Parameter(empty(*bias_shape).uniform_(-bias_bound, bias_bound))

    def _create_rearrange_layers(self, before: Any, before_lengths: Any, after: Any, after_lengths: Any) -> None:
        self.pre_rearrange = Rearrange(before, **before_lengths) if before is not None else None
        self.post_rearrange = Rearrange(after, **after_lengths) if after is not None else None

    def forward(self, input: Any) -> Tensor:
        if self.pre_rearrange is not None:
            input = self.pre_rearrange(input)
        result = einsum(self.einsum_pattern, input, self.weight)
        if self.bias is not None:
            result = result + self.bias
        return result if self.post_rearrange is None else self.post_rearrange(result)
