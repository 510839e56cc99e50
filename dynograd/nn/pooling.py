"""Pooling layers: maxima and means over windows, or over as many windows as the output asks for."""

from __future__ import annotations

from typing import Any

from dynograd.nn import functional as F
from dynograd.nn.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]


class _MaxPool(Module):
    rank: int

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Any) -> Any:
        return getattr(F, f"max_pool{self.rank}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest value of each window of (N, C, L)."""

    rank = 1


class MaxPool2d(_MaxPool):
    """The largest value of each window of (N, C, H, W).

    >>> dynograd.nn.MaxPool2d(2)(dynograd.arange(16.0).reshape(1, 1, 4, 4))
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """The largest value of each window of (N, C, D, H, W)."""

    rank = 3


class _AvgPool(Module):
    rank: int

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        options = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        if self.rank == 1:
            return F.avg_pool1d(input, *options)
        return getattr(F, f"avg_pool{self.rank}d")(input, *options, self.divisor_override)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of each window of (N, C, L)."""

    rank = 1

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W)."""

    rank = 2


class AvgPool3d(_AvgPool):
    """The mean of each window of (N, C, D, H, W)."""

    rank = 3


class _AdaptiveAvg(Module):
    rank: int

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        return getattr(F, f"adaptive_avg_pool{self.rank}d")(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvg):
    """Means over as many windows as `output_size`, of (N, C, L)."""

    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvg):
    """Means over as many windows as `output_size`, of (N, C, H, W)."""

    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvg):
    """Means over as many windows as `output_size`, of (N, C, D, H, W)."""

    rank = 3


class _AdaptiveMax(Module):
    rank: int

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Any) -> Any:
        return getattr(F, f"adaptive_max_pool{self.rank}d")(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Maxima over as many windows as `output_size`, of (N, C, L)."""

    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Maxima over as many windows as `output_size`, of (N, C, H, W)."""

    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Maxima over as many windows as `output_size`, of (N, C, D, H, W)."""

    rank = 3
