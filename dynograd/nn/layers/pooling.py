"""Pooling layers: maxima, means and norms over windows, or over as many windows as the output asks for.

Windows lie on the last dims of (N, C, *) or (C, *).
"""

from __future__ import annotations

from typing import Any

from dynograd.errors import ShapeError
from dynograd.nn import functional as F
from dynograd.nn.checks import check_number, check_sizes, check_windows
from dynograd.nn.layers.conv import as_tuple
from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = [
    *[f"{kind}Pool{rank}d" for kind in ("AdaptiveAvg", "AdaptiveMax", "Avg", "LP", "Max") for rank in (1, 2, 3)],
    *[f"MaxUnpool{rank}d" for rank in (1, 2, 3)],
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
]


def _check_windows(layer: Any, kernel_size: Any, stride: Any, padding: Any = 0, dilation: Any = 1) -> None:
    who = type(layer).__name__
    check_windows(who, layer.rank, kernel_size=kernel_size, stride=stride, dilation=dilation)
    check_windows(who, layer.rank, 0, padding=padding)


def _check_output(layer: Any, output_size: Any) -> None:
    """An integer, or one for each dimension; None keeps the input's size."""
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,)
    if len(sizes) not in (1, layer.rank):
        raise ShapeError(
            f"{type(layer).__name__}: output_size must be one number or {layer.rank}, got {output_size!r}."
        )
    for size in sizes:
        if size is not None:
            check_sizes(type(layer).__name__, output_size=size)


class _MaxPoolNd(Module):
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
        _check_windows(self, kernel_size, stride, padding, dilation)
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def _options(self) -> tuple:
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest value of each window of (N, C, L)."""

    rank = 1

    def forward(self, input: Any) -> Tensor | tuple[Tensor, ...]:
        return F.max_pool1d(input, *self._options())


class MaxPool2d(_MaxPoolNd):
    """The largest value of each window of (N, C, H, W).

    >>> dynograd.nn.MaxPool2d(2)(dynograd.arange(16.0).reshape(1, 1, 4, 4))
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """

    rank = 2

    def forward(self, input: Any) -> Tensor | tuple[Tensor, ...]:
        return F.max_pool2d(input, *self._options())


class MaxPool3d(_MaxPoolNd):
    """The largest value of each window of (N, C, D, H, W)."""

    rank = 3

    def forward(self, input: Any) -> Tensor | tuple[Tensor, ...]:
        return F.max_pool3d(input, *self._options())


class _MaxUnpoolNd(Module):
    rank = 1

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        _check_windows(self, kernel_size, stride, padding)
        self.kernel_size = as_tuple(kernel_size, self.rank)
        self.stride = as_tuple(stride if stride is not None else kernel_size, self.rank)
        self.padding = as_tuple(padding, self.rank)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts pooled values back where `MaxPool1d` with `return_indices=True` found them, and 0 elsewhere."""

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts pooled values back where `MaxPool2d` with `return_indices=True` found them, and 0 elsewhere."""

    rank = 2

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts pooled values back where `MaxPool3d` with `return_indices=True` found them, and 0 elsewhere."""

    rank = 3

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    rank: int

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of (N, C, L)."""

    rank = 1

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        _check_windows(self, kernel_size, stride, padding)
        self.kernel_size = as_tuple(kernel_size, 1)
        self.stride = as_tuple(stride if stride is not None else kernel_size, 1)
        self.padding = as_tuple(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Any) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    """Means of 2-d and 3-d windows, whose sum may be divided by another number than their size."""

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
        _check_windows(self, kernel_size, stride, padding)
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def _options(self) -> tuple:
        return (
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolWithDivisor):
    """The mean of each window of (N, C, H, W)."""

    rank = 2

    def forward(self, input: Any) -> Tensor:
        return F.avg_pool2d(input, *self._options())


class AvgPool3d(_AvgPoolWithDivisor):
    """The mean of each window of (N, C, D, H, W)."""

    rank = 3

    def forward(self, input: Any) -> Tensor:
        return F.avg_pool3d(input, *self._options())


class _LPPoolNd(Module):
    rank: int

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        _check_windows(self, kernel_size, stride)
        check_number(type(self).__name__, "norm_type", norm_type)
        if norm_type == 0:
            raise ValueError(
                f"{type(self).__name__}: norm_type must not be 0: the root of the sum is the 1 / norm_type-th."
            )
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"


class LPPool1d(_LPPoolNd):
    """The p-norm of each window of (N, C, L), p being `norm_type`."""

    rank = 1

    def forward(self, input: Any) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """The p-norm of each window of (N, C, H, W), p being `norm_type`."""

    rank = 2

    def forward(self, input: Any) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of (N, C, D, H, W), p being `norm_type`."""

    rank = 3

    def forward(self, input: Any) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _AdaptiveAvgPoolNd(Module):
    rank: int

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        _check_output(self, output_size)
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over as many windows as `output_size`, of (N, C, L)."""

    rank = 1

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over as many windows as `output_size`, of (N, C, H, W)."""

    rank = 2

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over as many windows as `output_size`, of (N, C, D, H, W)."""

    rank = 3

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Module):
    rank: int

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        _check_output(self, output_size)
        self.output_size, self.return_indices = output_size, return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _FractionalMaxPoolNd(Module):
    _rank = 2

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{who}: requires specifying either an output size, or a pooling ratio.")
        if output_size is not None and output_ratio is not None:
            raise ValueError(
                f"{who}: only one of output_size and output_ratio may be specified, got {output_size} and {output_ratio}."
            )
        self.kernel_size, self.return_indices = _for_each(kernel_size, self._rank), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else _for_each(output_size, self._rank)
        self.output_ratio = None if output_ratio is None else _for_each(output_ratio, self._rank)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"{who}: output_ratio must be between 0 and 1 (got {output_ratio}).")

    def _options(self) -> tuple:
        return self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples


def _for_each(value: Any, rank: int) -> Any:
    return value if isinstance(value, (tuple, list)) else (value,) * rank


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima over `output_size` windows at random places of (N, C, H, W); see `nn.functional.fractional_max_pool2d`."""

    def forward(self, input: Any) -> tuple[Tensor, ...]:
        return F.fractional_max_pool2d(input, *self._options())


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima over `output_size` windows at random places of (N, C, D, H, W)."""

    _rank = 3

    def forward(self, input: Any) -> Tensor:
        return F.fractional_max_pool3d(input, *self._options())


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over as many windows as `output_size`, of (N, C, L)."""

    rank = 1

    def forward(self, input: Any) -> Tensor | tuple[Tensor, ...]:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over as many windows as `output_size`, of (N, C, H, W)."""

    rank = 2

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over as many windows as `output_size`, of (N, C, D, H, W)."""

    rank = 3

    def forward(self, input: Any) -> Tensor:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
