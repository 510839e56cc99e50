"""Pooling layers: maxima, means and norms over windows, or over as many windows as the output asks for.

Windows lie on the last dims of (N, C, *) or (C, *).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.base.hints import Sizes
from dynograd.base.signatures import without_private
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
    """Windows of size 0 are refused when the layer runs, as PyTorch does: models hold layers that they never run."""
    who = type(layer).__name__
    check_windows(who, layer.rank, 0, kernel_size=kernel_size, padding=padding)
    check_windows(who, layer.rank, stride=stride, dilation=dilation)


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
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
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
    """The largest value of each window of the last dim.

    The output's size in a dim is floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    Args:
        kernel_size: of the window: an integer.
        stride: from one window to the next; `kernel_size` when left out.
        padding: at both ends, with -inf; at most half of `kernel_size`.
        dilation: from one element of a window to the next.
        return_indices: also give where the maxima lie, for `MaxUnpool1d`.
        ceil_mode: round the output's size up, for a last window that begins inside and reaches beyond the end.
    Shape: input (N, C, L) or (C, L); gives (N, C, L_out) or (C, L_out); with `return_indices` a pair of them, values
        and int64 indices.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> dynograd.nn.MaxPool1d(2)(dynograd.arange(6.0).reshape(1, 1, 6))
    tensor([[[1., 3., 5.]]])
    """

    rank = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool1d(input, *self._options())


class MaxPool2d(_MaxPoolNd):
    """The largest value of each window of the last two dims.

    The output's size in a dim is floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    Args:
        kernel_size: of the window: an integer, or one for each of two dims.
        stride: from one window to the next; `kernel_size` when left out.
        padding: at both ends, with -inf; at most half of `kernel_size`.
        dilation: from one element of a window to the next.
        return_indices: also give where the maxima lie, for `MaxUnpool2d`.
        ceil_mode: round the output's size up, for a last window that begins inside and reaches beyond the end.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H_out, W_out) or (C, H_out, W_out); with `return_indices` a pair of them,
        values and int64 indices.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> dynograd.nn.MaxPool2d(2)(dynograd.arange(16.0).reshape(1, 1, 4, 4))
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """

    rank = 2

    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool2d(input, *self._options())


class MaxPool3d(_MaxPoolNd):
    """The largest value of each window of the last three dims.

    The output's size in a dim is floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    Args:
        kernel_size: of the window: an integer, or one for each of three dims.
        stride: from one window to the next; `kernel_size` when left out.
        padding: at both ends, with -inf; at most half of `kernel_size`.
        dilation: from one element of a window to the next.
        return_indices: also give where the maxima lie, for `MaxUnpool3d`.
        ceil_mode: round the output's size up, for a last window that begins inside and reaches beyond the end.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out); with
        `return_indices` a pair of them, values and int64 indices.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> dynograd.nn.MaxPool3d(2)(dynograd.arange(64.0).reshape(1, 1, 4, 4, 4)).shape
    dynograd.Size([1, 1, 2, 2, 2])
    """

    rank = 3

    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool3d(input, *self._options())


class _MaxUnpoolNd(Module):
    rank = 1

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        _check_windows(self, kernel_size, stride, padding)
        self.kernel_size = as_tuple(kernel_size, self.rank)
        self.stride = as_tuple(stride if stride is not None else kernel_size, self.rank)
        self.padding = as_tuple(padding, self.rank)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts pooled values back where `MaxPool1d` with `return_indices=True` saw them, and 0 elsewhere.

    Args:
        kernel_size, stride, padding: those of the pooling.
    Shape: input and indices (N, C, L_out) or (C, L_out); gives (N, C, L) or (C, L), of `output_size` when forward gets one.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> pool = dynograd.nn.MaxPool1d(2, return_indices=True)
    >>> values, indices = pool(dynograd.arange(6.0).reshape(1, 1, 6))
    >>> dynograd.nn.MaxUnpool1d(2)(values, indices)
    tensor([[[0., 1., 0., 3., 0., 5.]]])
    """

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The values at their indices, 0 elsewhere.

        Args:
            input (N, C, L_out): pooled values.
            indices (N, C, L_out): where each lay, from `MaxPool1d` with `return_indices=True`.
            output_size: sizes of the result, where several sizes pool to the same.
        Returns:
            (N, C, L).

        >>> pool = dynograd.nn.MaxPool1d(2, return_indices=True)
        >>> dynograd.nn.MaxUnpool1d(2)(*pool(dynograd.arange(6.0).reshape(1, 1, 6))).shape
        dynograd.Size([1, 1, 6])
        """
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts pooled values back where `MaxPool2d` with `return_indices=True` saw them, and 0 elsewhere.

    Args:
        kernel_size, stride, padding: those of the pooling.
    Shape: input and indices (N, C, H_out, W_out) or (C, H_out, W_out); gives (N, C, H, W) or (C, H, W), of `output_size` when
        forward gets one.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> pool = dynograd.nn.MaxPool2d(2, return_indices=True)
    >>> values, indices = pool(dynograd.arange(16.0).reshape(1, 1, 4, 4))
    >>> dynograd.nn.MaxUnpool2d(2)(values, indices).shape
    dynograd.Size([1, 1, 4, 4])
    """

    rank = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The values at their indices, 0 elsewhere.

        Args:
            input (N, C, H_out, W_out): pooled values.
            indices (N, C, H_out, W_out): where each lay, from `MaxPool2d` with `return_indices=True`.
            output_size: sizes of the result, where several sizes pool to the same.
        Returns:
            (N, C, H, W).

        >>> pool = dynograd.nn.MaxPool2d(2, return_indices=True)
        >>> dynograd.nn.MaxUnpool2d(2)(*pool(dynograd.arange(16.0).reshape(1, 1, 4, 4))).shape
        dynograd.Size([1, 1, 4, 4])
        """
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts pooled values back where `MaxPool3d` with `return_indices=True` saw them, and 0 elsewhere.

    Args:
        kernel_size, stride, padding: those of the pooling.
    Shape: input and indices (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out); gives (N, C, D, H, W) or (C, D, H, W), of
        `output_size` when forward gets one.
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> pool = dynograd.nn.MaxPool3d(2, return_indices=True)
    >>> values, indices = pool(dynograd.arange(64.0).reshape(1, 1, 4, 4, 4))
    >>> dynograd.nn.MaxUnpool3d(2)(values, indices).shape
    dynograd.Size([1, 1, 4, 4, 4])
    """

    rank = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """The values at their indices, 0 elsewhere.

        Args:
            input (N, C, D_out, H_out, W_out): pooled values.
            indices (N, C, D_out, H_out, W_out): where each lay, from `MaxPool3d` with `return_indices=True`.
            output_size: sizes of the result, where several sizes pool to the same.
        Returns:
            (N, C, D, H, W).

        >>> pool = dynograd.nn.MaxPool3d(2, return_indices=True)
        >>> dynograd.nn.MaxUnpool3d(2)(*pool(dynograd.arange(64.0).reshape(1, 1, 4, 4, 4))).shape
        dynograd.Size([1, 1, 4, 4, 4])
        """
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AvgPoolNd(Module):
    rank: int

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of the last dim.

    The output's size in a dim is floor((size + 2 * padding - kernel_size) / stride) + 1.

    Args:
        kernel_size: of the window: an integer.
        stride: from one window to the next; `kernel_size` when left out.
        padding: at both ends, with zeros; at most half of `kernel_size`.
        ceil_mode: round the output's size up, for a last window that begins inside and reaches beyond the end.
        count_include_pad: padding counts in the means.
    Shape: input (N, C, L) or (C, L); gives (N, C, L_out) or (C, L_out).
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> dynograd.nn.AvgPool1d(2)(dynograd.arange(6.0).reshape(1, 1, 6))
    tensor([[[0.5000, 2.5000, 4.5000]]])
    """

    rank = 1

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        _check_windows(self, kernel_size, stride, padding)
        self.kernel_size = as_tuple(kernel_size, 1)
        self.stride = as_tuple(stride if stride is not None else kernel_size, 1)
        self.padding = as_tuple(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolWithDivisor(_AvgPoolNd):
    """Means of 2-d and 3-d windows, whose sum may be divided by another number than their size."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
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
    """The mean of each window of the last two dims.

    The output's size in a dim is floor((size + 2 * padding - kernel_size) / stride) + 1.

    Args:
        kernel_size: of the window: an integer, or one for each of two dims.
        stride: from one window to the next; `kernel_size` when left out.
        padding: at both ends, with zeros; at most half of `kernel_size`.
        ceil_mode: round the output's size up, for a last window that begins inside and reaches beyond the end.
        count_include_pad: padding counts in the means.
        divisor_override: what sums are divided by, instead of the window's size.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H_out, W_out) or (C, H_out, W_out).
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> dynograd.nn.AvgPool2d(2)(dynograd.arange(16.0).reshape(1, 1, 4, 4))
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """

    rank = 2

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool2d(input, *self._options())


class AvgPool3d(_AvgPoolWithDivisor):
    """The mean of each window of the last three dims.

    The output's size in a dim is floor((size + 2 * padding - kernel_size) / stride) + 1.

    Args:
        kernel_size: of the window: an integer, or one for each of three dims.
        stride: from one window to the next; `kernel_size` when left out.
        padding: at both ends, with zeros; at most half of `kernel_size`.
        ceil_mode: round the output's size up, for a last window that begins inside and reaches beyond the end.
        count_include_pad: padding counts in the means.
        divisor_override: what sums are divided by, instead of the window's size.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out).
    Raises:
        TypeError: a size is not an integer.
        ShapeError: a size below 1, a negative padding, or another number of sizes; in a call, windows that do not fit the input.

    >>> dynograd.nn.AvgPool3d(2)(dynograd.arange(64.0).reshape(1, 1, 4, 4, 4)).shape
    dynograd.Size([1, 1, 2, 2, 2])
    """

    rank = 3

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool3d(input, *self._options())


class _LPPoolNd(Module):
    rank: int

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
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
    """The p-norm of each window, p being `norm_type`: (the sum of x^p)^(1/p).

    p = 1 is the sum, and large p approach the maximum. As in PyTorch the sum is of x^p, not of |x|^p: with an odd p
    it may be negative, and the result is NaN then.

    Args:
        norm_type: p, not 0.
        kernel_size: of the window: an integer.
        stride: from one window to the next; `kernel_size` when left out.
        ceil_mode: round the output's size up.
    Shape: input (N, C, L) or (C, L); gives (N, C, L_out) or (C, L_out).
    Raises:
        ValueError: norm_type is 0.
        TypeError: a size is not an integer.
        ShapeError: a size below 1, or another number of sizes.

    >>> dynograd.nn.LPPool1d(2, 2)(dynograd.arange(6.0).reshape(1, 1, 6))
    tensor([[[1.0000, 3.6056, 6.4031]]])
    """

    rank = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """The p-norm of each window, p being `norm_type`: (the sum of x^p)^(1/p).

    p = 1 is the sum, and large p approach the maximum. As in PyTorch the sum is of x^p, not of |x|^p: with an odd p
    it may be negative, and the result is NaN then.

    Args:
        norm_type: p, not 0.
        kernel_size: of the window: an integer, or one for each of two dims.
        stride: from one window to the next; `kernel_size` when left out.
        ceil_mode: round the output's size up.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H_out, W_out) or (C, H_out, W_out).
    Raises:
        ValueError: norm_type is 0.
        TypeError: a size is not an integer.
        ShapeError: a size below 1, or another number of sizes.

    >>> dynograd.nn.LPPool2d(2, 2)(dynograd.arange(16.0).reshape(1, 1, 4, 4))
    tensor([[[[ 6.4807,  9.8995],
              [21.4009, 25.3377]]]])
    """

    rank = 2

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """The p-norm of each window, p being `norm_type`: (the sum of x^p)^(1/p).

    p = 1 is the sum, and large p approach the maximum. As in PyTorch the sum is of x^p, not of |x|^p: with an odd p
    it may be negative, and the result is NaN then.

    Args:
        norm_type: p, not 0.
        kernel_size: of the window: an integer, or one for each of three dims.
        stride: from one window to the next; `kernel_size` when left out.
        ceil_mode: round the output's size up.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out).
    Raises:
        ValueError: norm_type is 0.
        TypeError: a size is not an integer.
        ShapeError: a size below 1, or another number of sizes.

    >>> dynograd.nn.LPPool3d(2, 2)(dynograd.arange(64.0).reshape(1, 1, 4, 4, 4)).shape
    dynograd.Size([1, 1, 2, 2, 2])
    """

    rank = 3

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _AdaptiveAvgPoolNd(Module):
    rank: int

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        _check_output(self, output_size)
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over as many windows as `output_size` says, whatever the input's size.

    Window i of n over a dim of size s goes from floor(i s / n) to ceil((i + 1) s / n).

    Args:
        output_size: the number of windows.
    Shape: input (N, C, L) or (C, L); gives (N, C, L_out) or (C, L_out).
    Raises:
        TypeError: output_size is not of integers.
        ShapeError: it is negative, or another number of sizes.

    >>> dynograd.nn.AdaptiveAvgPool1d(3)(dynograd.arange(6.0).reshape(1, 1, 6))
    tensor([[[0.5000, 2.5000, 4.5000]]])
    """

    rank = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over as many windows as `output_size` says, whatever the input's size.

    Window i of n over a dim of size s goes from floor(i s / n) to ceil((i + 1) s / n).

    Args:
        output_size: the numbers of windows in both dims: one number for both, or (H_out, W_out); None keeps the input's size.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H_out, W_out) or (C, H_out, W_out).
    Raises:
        TypeError: output_size is not of integers.
        ShapeError: it is negative, or another number of sizes.

    >>> dynograd.nn.AdaptiveAvgPool2d((2, None))(dynograd.arange(16.0).reshape(1, 1, 4, 4)).shape
    dynograd.Size([1, 1, 2, 4])
    """

    rank = 2

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over as many windows as `output_size` says, whatever the input's size.

    Window i of n over a dim of size s goes from floor(i s / n) to ceil((i + 1) s / n).

    Args:
        output_size: the numbers of windows: one number for all dims, or (D_out, H_out, W_out); None keeps the input's size.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out).
    Raises:
        TypeError: output_size is not of integers.
        ShapeError: it is negative, or another number of sizes.

    >>> dynograd.nn.AdaptiveAvgPool3d(2)(dynograd.arange(64.0).reshape(1, 1, 4, 4, 4)).shape
    dynograd.Size([1, 1, 2, 2, 2])
    """

    rank = 3

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPoolNd(Module):
    rank: int

    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__()
        _check_output(self, output_size)
        self.output_size, self.return_indices = output_size, return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _FractionalMaxPoolNd(Module):
    _rank = 2

    @without_private
    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
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
    """Maxima over windows at random places, so many that the output has `output_size`: pooling by a factor that is no integer.

    Args:
        kernel_size: of the window: an integer, or one for each of two dims.
        output_size: the numbers of windows: one for all dims, or one for each.
        output_ratio: instead of `output_size`, the output's size as a share of the input's, between 0 and 1.
        return_indices: also give where the maxima lie.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H_out, W_out) or (C, H_out, W_out); with `return_indices` a pair of them.
    Raises:
        ValueError: neither or both of output_size and output_ratio; a ratio outside (0, 1).
    Source: Graham, Fractional max-pooling, 2014 (arXiv:1412.6071).

    >>> dynograd.nn.FractionalMaxPool2d(2, output_size=3)(dynograd.ones(1, 2, 5, 5)).shape
    dynograd.Size([1, 2, 3, 3])
    """

    def forward(self, input: Tensor) -> tuple[Tensor, ...]:
        return F.fractional_max_pool2d(input, *self._options())


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima over windows at random places, so many that the output has `output_size`: pooling by a factor that is no integer.

    Args:
        kernel_size: of the window: an integer, or one for each of three dims.
        output_size: the numbers of windows: one for all dims, or one for each.
        output_ratio: instead of `output_size`, the output's size as a share of the input's, between 0 and 1.
        return_indices: also give where the maxima lie.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out); with
        `return_indices` a pair of them.
    Raises:
        ValueError: neither or both of output_size and output_ratio; a ratio outside (0, 1).
    Source: Graham, Fractional max-pooling, 2014 (arXiv:1412.6071).

    >>> dynograd.nn.FractionalMaxPool3d(2, output_size=3)(dynograd.ones(1, 2, 5, 5, 5)).shape
    dynograd.Size([1, 2, 3, 3, 3])
    """

    _rank = 3

    def forward(self, input: Tensor) -> Tensor:
        return F.fractional_max_pool3d(input, *self._options())


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over as many windows as `output_size` says, whatever the input's size.

    Window i of n over a dim of size s goes from floor(i s / n) to ceil((i + 1) s / n).

    Args:
        output_size: the number of windows.
        return_indices: also give where the maxima lie.
    Shape: input (N, C, L) or (C, L); gives (N, C, L_out) or (C, L_out); with `return_indices` a pair of them, values
        and int64 indices.
    Raises:
        TypeError: output_size is not of integers.
        ShapeError: it is negative, or another number of sizes.

    >>> dynograd.nn.AdaptiveMaxPool1d(3)(dynograd.arange(6.0).reshape(1, 1, 6))
    tensor([[[1., 3., 5.]]])
    """

    rank = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over as many windows as `output_size` says, whatever the input's size.

    Window i of n over a dim of size s goes from floor(i s / n) to ceil((i + 1) s / n).

    Args:
        output_size: the numbers of windows in both dims: one number for both, or (H_out, W_out); None keeps the input's size.
        return_indices: also give where the maxima lie.
    Shape: input (N, C, H, W) or (C, H, W); gives (N, C, H_out, W_out) or (C, H_out, W_out); with `return_indices` a pair of them,
        values and int64 indices.
    Raises:
        TypeError: output_size is not of integers.
        ShapeError: it is negative, or another number of sizes.

    >>> dynograd.nn.AdaptiveMaxPool2d((2, None))(dynograd.arange(16.0).reshape(1, 1, 4, 4)).shape
    dynograd.Size([1, 1, 2, 4])
    """

    rank = 2

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over as many windows as `output_size` says, whatever the input's size.

    Window i of n over a dim of size s goes from floor(i s / n) to ceil((i + 1) s / n).

    Args:
        output_size: the numbers of windows: one number for all dims, or (D_out, H_out, W_out); None keeps the input's size.
        return_indices: also give where the maxima lie.
    Shape: input (N, C, D, H, W) or (C, D, H, W); gives (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out); with
        `return_indices` a pair of them, values and int64 indices.
    Raises:
        TypeError: output_size is not of integers.
        ShapeError: it is negative, or another number of sizes.

    >>> dynograd.nn.AdaptiveMaxPool3d(2)(dynograd.arange(64.0).reshape(1, 1, 4, 4, 4)).shape
    dynograd.Size([1, 1, 2, 2, 2])
    """

    rank = 3

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
