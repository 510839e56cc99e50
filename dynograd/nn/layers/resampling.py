"""Layers that move elements between channels and space, resize images, or cut them into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base.hints import Sizes
from dynograd.nn import functional as F
from dynograd.nn.checks import check_sizes, check_windows
from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = [
    "ChannelShuffle",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]


class ChannelShuffle(Module):
    """Deals the channels out over `groups`: channels (g, C / g) become (C / g, g).

    Args:
        groups: g, which divides C; at least 1.
    Shape: input (N, C, *); gives the same shape.
    Raises:
        TypeError, ShapeError: groups is no integer above 0; in a call, C is not divisible by it.
    Source: Zhang et al., ShuffleNet, 2017 (arXiv:1707.01083).

    >>> dynograd.nn.ChannelShuffle(2)(dynograd.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        check_sizes("ChannelShuffle", 1, groups=groups)
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class PixelShuffle(Module):
    """Moves channels into space.

    Args:
        upscale_factor: r, at least 1.
    Shape: input (*, C r^2, H, W); gives (*, C, H r, W r).
    Raises:
        TypeError, ShapeError: upscale_factor is no integer above 0; in a call, channels that r^2 does not divide.
    Source: Shi et al., Real-time super-resolution using an efficient sub-pixel convolutional network, 2016 (arXiv:1609.05158).

    >>> dynograd.nn.PixelShuffle(2)(dynograd.arange(4.0).reshape(1, 4, 1, 1))
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        check_sizes("PixelShuffle", 1, upscale_factor=upscale_factor)
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Moves space into channels: the reverse of `PixelShuffle`.

    Args:
        downscale_factor: r, at least 1.
    Shape: input (*, C, H r, W r); gives (*, C r^2, H, W).
    Raises:
        TypeError, ShapeError: downscale_factor is no integer above 0; in a call, H or W that r does not divide.

    >>> dynograd.nn.PixelUnshuffle(2)(dynograd.arange(4.0).reshape(1, 1, 2, 2)).flatten()
    tensor([0., 1., 2., 3.])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        check_sizes("PixelUnshuffle", 1, downscale_factor=downscale_factor)
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class Upsample(Module):
    """Resizes images (or lines, or volumes) by interpolation.

    Args:
        size: the output's sizes: one number, or one for each dim after the channels.
        scale_factor: instead of `size`: by how much each dim grows.
        mode: "nearest", "linear" (3-d input), "bilinear" or "bicubic" (4-d), "trilinear" (5-d).
        align_corners: for the linear and cubic modes: the outermost pixels of input and output coincide.
        recompute_scale_factor: compute the factor anew from the sizes.
    Shape: input (N, C, *), * being 1 to 3 dims; gives (N, C, *) of the new sizes.
    Raises:
        ValueError: in a call: neither or both of size and scale_factor, an unknown mode or one for another rank.

    >>> dynograd.nn.Upsample(scale_factor=2)(tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    >>> dynograd.nn.Upsample(size=3, mode="linear", align_corners=True)(tensor([[[1.0, 2.0]]]))
    tensor([[[1.0000, 1.5000, 2.0000]]])
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        factors: Any = scale_factor
        if isinstance(factors, (tuple, list)):
            factors = tuple(float(factor) for factor in factors)
        elif factors is not None:
            factors = float(factors)
        self.name = type(self).__name__
        self.size, self.scale_factor, self.mode = size, factors, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        size = f"scale_factor={self.scale_factor}" if self.scale_factor is not None else f"size={self.size}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resizes images by repeating pixels.

    Args:
        size: (H_out, W_out), or one number for both.
        scale_factor: instead of `size`: by how much both dims grow.
    Shape: input (N, C, H, W); gives (N, C, H_out, W_out).

    >>> dynograd.nn.UpsamplingNearest2d(scale_factor=2)(tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes images by bilinear interpolation with corners aligned.

    Args:
        size: (H_out, W_out), or one number for both.
        scale_factor: instead of `size`: by how much both dims grow.
    Shape: input (N, C, H, W); gives (N, C, H_out, W_out).

    >>> dynograd.nn.UpsamplingBilinear2d(size=(1, 3))(tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class Unfold(Module):
    """Cuts images into blocks, one in each column: a convolution is then a product of matrices.

    Args:
        kernel_size: of the blocks: an integer, or one for each of two dims.
        dilation: from one element of a block to the next.
        padding: with zeros, at both ends.
        stride: from one block to the next.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C * kernel height * kernel width, blocks), or that without N.
    Raises:
        TypeError, ShapeError: a size that is no integer, too small, or more than two.

    >>> dynograd.nn.Unfold(2)(dynograd.arange(6.0).reshape(1, 1, 2, 3))
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__()
        check_windows("Unfold", 2, kernel_size=kernel_size, dilation=dilation, stride=stride)
        check_windows("Unfold", 2, 0, padding=padding)
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """The image that the columns of `Unfold` came from, overlapping blocks summed.

    Args:
        output_size: (H, W) of the image.
        kernel_size, dilation, padding, stride: as for `Unfold`.
    Shape: input (N, C * kernel height * kernel width, blocks), or that without N; gives (N, C, H, W) or (C, H, W).
    Raises:
        TypeError, ShapeError: a size that is no integer, too small, or more than two; in a call, another number of blocks.

    >>> dynograd.nn.Fold((2, 3), 2)(dynograd.ones(1, 4, 2))
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        check_windows("Fold", 2, output_size=output_size, kernel_size=kernel_size, dilation=dilation, stride=stride)
        check_windows("Fold", 2, 0, padding=padding)
        self.output_size = output_size
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )
