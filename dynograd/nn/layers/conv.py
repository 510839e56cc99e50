"""Convolutions and their transposes in 1, 2 and 3 dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dynograd.base.hints import DeviceLike, DtypeLike, Sizes
from dynograd.errors import ShapeError
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.checks import check_sizes, check_windows
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.creation import empty
from dynograd.tensor.tensor import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


def as_tuple(value: Any, rank: int) -> tuple[int, ...]:
    """One number for every dimension, or a number each.

    Args:
        value: a number, or a tuple or list.
        rank: the number of dimensions.
    Returns:
        a tuple: that of `value`, or `rank` times the number.

    >>> dynograd.nn.layers.conv.as_tuple(3, 2), dynograd.nn.layers.conv.as_tuple([1, 2], 2)
    ((3, 3), (1, 2))
    """
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class _ConvNd(Module):
    """What all convolutions share: sizes, weight, bias, initial values, text."""

    rank: int
    transposed = False

    def _set_up(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        who = type(self).__name__
        check_sizes(who, in_channels=in_channels, out_channels=out_channels)
        check_sizes(who, 1, groups=groups)
        check_windows(who, self.rank, kernel_size=kernel_size, stride=stride, dilation=dilation)
        if len(as_tuple(kernel_size, self.rank)) != self.rank:
            raise ShapeError(f"{who}: kernel_size must be an integer or {self.rank} of them, got {kernel_size!r}.")
        check_windows(who, self.rank, 0, output_padding=output_padding)
        if in_channels % groups:
            raise ValueError(f"{who}: in_channels must be divisible by groups, got {in_channels} and {groups}.")
        if out_channels % groups:
            raise ValueError(f"{who}: out_channels must be divisible by groups, got {out_channels} and {groups}.")
        if not isinstance(padding, str):
            check_windows(who, self.rank, 0, padding=padding)
        else:
            if padding not in ("same", "valid"):
                raise ValueError(f"{who}: Invalid padding string {padding!r}, should be one of 'same', 'valid'.")
            if padding == "same" and any(step != 1 for step in as_tuple(stride, self.rank)):
                raise ValueError(f"{who}: padding='same' is not supported for strided convolutions.")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(
                f"{who}: padding_mode must be one of 'zeros', 'reflect', 'replicate', 'circular', got {padding_mode!r}."
            )
        if self.transposed and padding_mode != "zeros":
            raise ValueError(f'{who}: only "zeros" padding mode is supported.')
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = as_tuple(kernel_size, self.rank), as_tuple(stride, self.rank)
        self.padding = padding if isinstance(padding, str) else as_tuple(padding, self.rank)
        self.dilation, self.output_padding = as_tuple(dilation, self.rank), as_tuple(output_padding, self.rank)
        self.groups, self.padding_mode = groups, padding_mode
        outer, inner = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = Parameter(empty(outer, inner // groups, *self.kernel_size, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial values, uniform within 1 / sqrt(fan_in), for weight and bias.

        >>> layer = dynograd.nn.Conv1d(1, 2, 4)
        >>> layer.reset_parameters()
        >>> bool(layer.weight.abs().max() <= 0.5)
        True
        """
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self.rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.rank:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _PlainConvNd(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The layer with another weight. PyTorch's name: subclasses call it, or put their own in its place."""
        convolve = getattr(F, f"conv{self.rank}d")
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self.rank
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    @property
    def _reversed_padding_repeated_twice(self) -> list[int]:
        """How much `F.pad` adds at each side, the last dim first. PyTorch's name."""
        sides: list[int] = []
        for place in reversed(range(self.rank)):
            if isinstance(self.padding, str):
                total = self.dilation[place] * (self.kernel_size[place] - 1) if self.padding == "same" else 0
                sides += [total // 2, total - total // 2]
            else:
                sides += [self.padding[place]] * 2
        return sides


class Conv1d(_PlainConvNd):
    """Cross-correlation with a learned kernel over the last dim.

    `weight` is (out_channels, in_channels / groups, kernel_size), `bias` (out_channels,); both start
    uniform within 1 / sqrt(fan_in).

    The output's size in a dim is floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    Args:
        in_channels, out_channels: the channels of input and output, each divisible by `groups`.
        kernel_size: of the window: an integer.
        stride: from one window to the next.
        padding: at both ends; "valid" is 0, and "same", for stride 1, keeps the input's size.
        dilation: from one element of a window to the next.
        groups: channels are split in so many groups that do not see each other.
        bias: whether to add a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device, dtype: of the parameters.
    Shape: input (N, in_channels, L) or (in_channels, L); gives (N, out_channels, L_out) or (out_channels, L_out).
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a negative size, another number of sizes, an input of other channels.
        ValueError: channels that `groups` does not divide, an unknown padding, "same" with a stride.

    >>> dynograd.nn.Conv1d(2, 4, 3)(dynograd.ones(1, 2, 5)).shape
    dynograd.Size([1, 4, 3])
    >>> dynograd.nn.Conv1d(2, 4, 3, padding="same")(dynograd.ones(1, 2, 5)).shape
    dynograd.Size([1, 4, 5])
    """

    rank = 1


class Conv2d(_PlainConvNd):
    """Cross-correlation with a learned kernel over the last two dims.

    `weight` is (out_channels, in_channels / groups, kernel height, kernel width), `bias` (out_channels,); both start
    uniform within 1 / sqrt(fan_in).

    The output's size in a dim is floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    Args:
        in_channels, out_channels: the channels of input and output, each divisible by `groups`.
        kernel_size: of the window: an integer, or one for each of two dims.
        stride: from one window to the next.
        padding: at both ends; "valid" is 0, and "same", for stride 1, keeps the input's size.
        dilation: from one element of a window to the next.
        groups: channels are split in so many groups that do not see each other.
        bias: whether to add a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device, dtype: of the parameters.
    Shape: input (N, in_channels, H, W) or (in_channels, H, W); gives (N, out_channels, H_out, W_out) or
        (out_channels, H_out, W_out).
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a negative size, another number of sizes, an input of other channels.
        ValueError: channels that `groups` does not divide, an unknown padding, "same" with a stride.

    >>> dynograd.nn.Conv2d(2, 4, 3)(dynograd.ones(1, 2, 5, 5)).shape
    dynograd.Size([1, 4, 3, 3])
    >>> dynograd.nn.Conv2d(2, 4, 3, padding="same")(dynograd.ones(1, 2, 5, 5)).shape
    dynograd.Size([1, 4, 5, 5])
    """

    rank = 2


class Conv3d(_PlainConvNd):
    """Cross-correlation with a learned kernel over the last three dims.

    `weight` is (out_channels, in_channels / groups, kernel depth, kernel height, kernel width), `bias`
    (out_channels,); both start uniform within 1 / sqrt(fan_in).

    The output's size in a dim is floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    Args:
        in_channels, out_channels: the channels of input and output, each divisible by `groups`.
        kernel_size: of the window: an integer, or one for each of three dims.
        stride: from one window to the next.
        padding: at both ends; "valid" is 0, and "same", for stride 1, keeps the input's size.
        dilation: from one element of a window to the next.
        groups: channels are split in so many groups that do not see each other.
        bias: whether to add a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        device, dtype: of the parameters.
    Shape: input (N, in_channels, D, H, W) or (in_channels, D, H, W); gives (N, out_channels, D_out, H_out, W_out) or
        (out_channels, D_out, H_out, W_out).
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a negative size, another number of sizes, an input of other channels.
        ValueError: channels that `groups` does not divide, an unknown padding, "same" with a stride.

    >>> dynograd.nn.Conv3d(2, 4, 3)(dynograd.ones(1, 2, 5, 5, 5)).shape
    dynograd.Size([1, 4, 3, 3, 3])
    >>> dynograd.nn.Conv3d(2, 4, 3, padding="same")(dynograd.ones(1, 2, 5, 5, 5)).shape
    dynograd.Size([1, 4, 5, 5, 5])
    """

    rank = 3


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        convolve = getattr(F, f"conv_transpose{self.rank}d")
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _extra(self, input: Any, output_size: Any) -> tuple[int, ...]:
        sizes = tuple(output_size)[-self.rank :]
        extra = []
        for place, length in enumerate(tuple(input.shape)[-self.rank :]):
            least = (length - 1) * self.stride[place] - 2 * self.padding[place]
            least += self.dilation[place] * (self.kernel_size[place] - 1) + 1
            if not least <= sizes[place] < least + max(self.stride[place], self.dilation[place]):
                raise ValueError(
                    f"{type(self).__name__}: requested an output size of {sizes}, but valid sizes at dimension {place} range from "
                    f"{least} to {least + self.stride[place] - 1} (for an input of {tuple(input.shape)})."
                )
            extra.append(sizes[place] - least)
        return tuple(extra)


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose (gradient) of `Conv1d` with respect to its input: what has a stride becomes larger.

    `weight` is (in_channels, out_channels / groups, kernel_size), `bias` (out_channels,).

    The output's size in a dim is (size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    Args:
        in_channels, out_channels: the channels of input and output, each divisible by `groups`.
        kernel_size: of the window: an integer.
        stride: from one window to the next.
        padding: what is cut off at both ends.
        output_padding: added to one end of the output's size; less than stride or dilation.
        groups: channels are split in so many groups that do not see each other.
        bias: whether to add a bias.
        dilation: from one element of a window to the next.
        padding_mode: "zeros" only.
        device, dtype: of the parameters.
    Shape: input (N, in_channels, L) or (in_channels, L); gives (N, out_channels, L_out) or (out_channels, L_out),
        with the sizes `output_size` when forward gets them.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a negative size, another number of sizes, an input of other channels.
        ValueError: channels that `groups` does not divide, another padding_mode; in a call, an output_size that cannot be.
    Source: Zeiler et al., Deconvolutional networks, 2010.

    >>> dynograd.nn.ConvTranspose1d(2, 4, 2, stride=2)(dynograd.ones(1, 2, 3)).shape
    dynograd.Size([1, 4, 6])
    """

    rank = 1


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose (gradient) of `Conv2d` with respect to its input: what has a stride becomes larger.

    `weight` is (in_channels, out_channels / groups, kernel height, kernel width), `bias` (out_channels,).

    The output's size in a dim is (size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    Args:
        in_channels, out_channels: the channels of input and output, each divisible by `groups`.
        kernel_size: of the window: an integer, or one for each of two dims.
        stride: from one window to the next.
        padding: what is cut off at both ends.
        output_padding: added to one end of the output's size; less than stride or dilation.
        groups: channels are split in so many groups that do not see each other.
        bias: whether to add a bias.
        dilation: from one element of a window to the next.
        padding_mode: "zeros" only.
        device, dtype: of the parameters.
    Shape: input (N, in_channels, H, W) or (in_channels, H, W); gives (N, out_channels, H_out, W_out) or
        (out_channels, H_out, W_out), with the sizes `output_size` when forward gets them.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a negative size, another number of sizes, an input of other channels.
        ValueError: channels that `groups` does not divide, another padding_mode; in a call, an output_size that cannot be.
    Source: Zeiler et al., Deconvolutional networks, 2010.

    >>> dynograd.nn.ConvTranspose2d(2, 4, 2, stride=2)(dynograd.ones(1, 2, 3, 3)).shape
    dynograd.Size([1, 4, 6, 6])
    """

    rank = 2


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose (gradient) of `Conv3d` with respect to its input: what has a stride becomes larger.

    `weight` is (in_channels, out_channels / groups, kernel depth, kernel height, kernel width), `bias`
    (out_channels,).

    The output's size in a dim is (size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    Args:
        in_channels, out_channels: the channels of input and output, each divisible by `groups`.
        kernel_size: of the window: an integer, or one for each of three dims.
        stride: from one window to the next.
        padding: what is cut off at both ends.
        output_padding: added to one end of the output's size; less than stride or dilation.
        groups: channels are split in so many groups that do not see each other.
        bias: whether to add a bias.
        dilation: from one element of a window to the next.
        padding_mode: "zeros" only.
        device, dtype: of the parameters.
    Shape: input (N, in_channels, D, H, W) or (in_channels, D, H, W); gives (N, out_channels, D_out, H_out, W_out) or
        (out_channels, D_out, H_out, W_out), with the sizes `output_size` when forward gets them.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a negative size, another number of sizes, an input of other channels.
        ValueError: channels that `groups` does not divide, another padding_mode; in a call, an output_size that cannot be.
    Source: Zeiler et al., Deconvolutional networks, 2010.

    >>> dynograd.nn.ConvTranspose3d(2, 4, 2, stride=2)(dynograd.ones(1, 2, 3, 3, 3)).shape
    dynograd.Size([1, 4, 6, 6, 6])
    """

    rank = 3
