"""Normalization within each example: over features or groups of channels. `batchnorm.py` holds those with running statistics."""

from __future__ import annotations

from typing import Any

from dynograd.base.hints import DeviceLike, DtypeLike, Sizes
from dynograd.errors import ShapeError
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.checks import check_sizes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.creation import ones, zeros
from dynograd.tensor.tensor import Tensor

__all__ = [
    "CrossMapLRN2d",
    "GroupNorm",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


def _as_shape(who: str, normalized_shape: Any) -> tuple[int, ...]:
    shape = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
    for size in shape:
        check_sizes(who, normalized_shape=size)
    return shape


class LayerNorm(Module):
    """Normalizes over the last dims to mean 0 and (biased) variance 1, then scales by `weight` and shifts by `bias`.

    Args:
        normalized_shape: the sizes of the last dims, an integer or a tuple; `weight` and `bias` have this shape.
        eps: added to the variance.
        elementwise_affine: scale and shift; they start at 1 and 0.
        bias: with `elementwise_affine`, also shift.
        device, dtype: of the parameters.
    Shape: input (*, *normalized_shape), also ragged; gives the same shape.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size is negative; in a call, other last sizes.
    Source: Ba et al., Layer normalization, 2016 (arXiv:1607.06450).

    >>> dynograd.nn.LayerNorm(2)(tensor([[1.0, 3.0], [0.0, 0.0]])).detach()
    tensor([[-1.0000,  1.0000],
            [ 0.0000,  0.0000]])
    """

    def __init__(
        self,
        normalized_shape: Sizes,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape("LayerNorm", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        weight = Parameter(ones(self.normalized_shape, **options)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        shift = Parameter(zeros(self.normalized_shape, **options)) if elementwise_affine and bias else None
        self.register_parameter("bias", shift)

    def reset_parameters(self) -> None:
        """Sets the scale to 1 and the shift to 0.

        >>> layer = dynograd.nn.LayerNorm(2)
        >>> layer.reset_parameters()
        >>> layer.weight.detach(), layer.bias.detach()
        (tensor([1., 1.]), tensor([0., 0.]))
        """
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divides by the root of the mean square over the last dims, then scales by `weight`.

    Args:
        normalized_shape: the sizes of the last dims, an integer or a tuple; `weight` has this shape.
        eps: added to the mean square; None is the dtype's epsilon.
        elementwise_affine: scale; it starts at 1.
        device, dtype: of the parameters.
    Shape: input (*, *normalized_shape), also ragged; gives the same shape.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size is negative; in a call, other last sizes.
    Source: Zhang and Sennrich, Root mean square layer normalization, 2019 (arXiv:1910.07467).

    >>> dynograd.nn.RMSNorm(2)(tensor([3.0, 3.0])).detach()
    tensor([1., 1.])
    """

    def __init__(
        self,
        normalized_shape: Sizes,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape("RMSNorm", normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ones(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)

    def reset_parameters(self) -> None:
        """Sets the scale to 1.

        >>> layer = dynograd.nn.RMSNorm(2)
        >>> layer.reset_parameters()
        >>> layer.weight.detach()
        tensor([1., 1.])
        """
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalizes each example over groups of channels to mean 0 and (biased) variance 1, then scales and shifts per channel.

    Args:
        num_groups: into how many groups the channels are split, at least 1.
        num_channels: C, divisible by `num_groups`.
        eps: added to the variance.
        affine: scale by `weight` (C,) and shift by `bias` (C,), which start at 1 and 0.
        device, dtype: of the parameters.
        bias: with `affine`, also shift.
    Shape: input (N, C, *); gives the same shape.
    Raises:
        ValueError: num_groups does not divide num_channels.
        TypeError, ShapeError: a size that is no integer, or too small.
    Source: Wu and He, Group normalization, 2018 (arXiv:1803.08494).

    >>> dynograd.nn.GroupNorm(1, 2)(tensor([[1.0, 3.0]])).detach()
    tensor([[-1.0000,  1.0000]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_sizes("GroupNorm", 1, num_groups=num_groups)
        check_sizes("GroupNorm", num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(
                f"GroupNorm: num_channels must be divisible by num_groups, got {num_channels} and {num_groups}."
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_channels, **options)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_channels, **options)) if affine and bias else None)

    def reset_parameters(self) -> None:
        """Sets the scale to 1 and the shift to 0.

        >>> layer = dynograd.nn.GroupNorm(1, 2)
        >>> layer.reset_parameters()
        >>> layer.weight.detach(), layer.bias.detach()
        (tensor([1., 1.]), tensor([0., 0.]))
        """
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class CrossMapLRN2d(Module):
    """Divides by a power of the summed squares of neighbouring channels, as Torch did: prefer `LocalResponseNorm`.

    As in PyTorch the square of channel 0 stays in the sum of all channels behind it, and an even `size` counts as one less.

    Args:
        size: the number of channels that are summed, at least 1.
        alpha: factor of the mean square.
        beta: the power.
        k: added to the mean square.
    Shape: input (N, C, H, W); gives the same shape.
    Raises:
        ShapeError: size below 1; in a call, an input that is not 4-d.

    >>> dynograd.nn.CrossMapLRN2d(1, alpha=1.0)(dynograd.ones(1, 2, 1, 1)).flatten()
    tensor([0.5946, 0.4387])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        check_sizes("CrossMapLRN2d", 1, size=size)
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ShapeError(
                f"CrossMapLRN2d: Expected 4D input, got {input.dim()}D input instead (shape {tuple(input.shape)}). LocalResponseNorm "
                f"takes (N, C, *)."
            )
        square, channels, half = input * input, input.shape[1], (self.size - 1) // 2
        total = square
        for step in range(1, min(half, channels - 1) + 1):
            total = (
                total + F.pad(square[:, step:], (0, 0, 0, 0, 0, step)) + F.pad(square[:, :-step], (0, 0, 0, 0, step, 0))
            )
        if half + 1 < channels:
            behind = square[:, :1].expand(-1, channels - half - 1, -1, -1)
            total = total + F.pad(behind, (0, 0, 0, 0, half + 1, 0))
        return input * (total * (self.alpha / self.size) + self.k) ** -self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(Module):
    """Divides by (k + alpha * the mean square of `size` neighbouring channels) ** beta.

    Args:
        size: the number of channels, at least 1.
        alpha: factor of the mean square.
        beta: the power.
        k: added to the mean square.
    Shape: input (N, C, *); gives the same shape.
    Raises:
        ShapeError: size below 1.
    Source: Krizhevsky et al., ImageNet classification with deep convolutional neural networks, 2012, section 3.3.

    >>> dynograd.nn.LocalResponseNorm(1, alpha=1.0)(dynograd.ones(1, 2, 1)).flatten()
    tensor([0.5946, 0.5946])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        check_sizes("LocalResponseNorm", 1, size=size)
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
