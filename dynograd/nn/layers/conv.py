"""Convolutions and their transposes in 1, 2 and 3 dimensions."""

from __future__ import annotations

import math
from typing import Any

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
    """One number for every dimension, or a number each."""
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
        """Uniform within 1 / sqrt(fan_in), weight and bias."""
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
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
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

    def forward(self, input: Any) -> Tensor:
        convolve = getattr(F, f"conv{self.rank}d")
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._sides(), mode=self.padding_mode)
            padding = (0,) * self.rank
        return convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _sides(self) -> list[int]:
        sides: list[int] = []
        for place in reversed(range(self.rank)):
            if isinstance(self.padding, str):
                total = self.dilation[place] * (self.kernel_size[place] - 1) if self.padding == "same" else 0
                sides += [total // 2, total - total // 2]
            else:
                sides += [self.padding[place]] * 2
        return sides


class Conv1d(_PlainConvNd):
    """Cross-correlation over (N, C, L).

    >>> dynograd.nn.Conv1d(2, 4, 3)(dynograd.ones(1, 2, 5)).shape
    dynograd.Size([1, 4, 3])
    """

    rank = 1


class Conv2d(_PlainConvNd):
    """Cross-correlation over (N, C, H, W).

    >>> dynograd.nn.Conv2d(1, 4, 3, padding=1)(dynograd.ones(1, 1, 5, 5)).shape
    dynograd.Size([1, 4, 5, 5])
    """

    rank = 2


class Conv3d(_PlainConvNd):
    """Cross-correlation over (N, C, D, H, W)."""

    rank = 3


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
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

    def forward(self, input: Any, output_size: Any = None) -> Tensor:
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
    """The transpose (gradient) of `Conv1d` with respect to its input."""

    rank = 1


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose (gradient) of `Conv2d` with respect to its input.

    >>> dynograd.nn.ConvTranspose2d(1, 2, 2, stride=2)(dynograd.ones(1, 1, 3, 3)).shape
    dynograd.Size([1, 2, 6, 6])
    """

    rank = 2


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose (gradient) of `Conv3d` with respect to its input."""

    rank = 3
