"""The pooling functions under PyTorch's names; the ops they call are in `poolings.py`.

Each takes a batch (N, C, *sizes) or a single example (C, *sizes), and numbers or one number for each spatial dim.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import whole_number
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.ops.conv.spatial_sizes import per_dim
from dynograd.ops.elementwise.arithmetic import pow
from dynograd.ops.elementwise.choices import where
from dynograd.ops.elementwise.comparisons import ne
from dynograd.ops.elementwise.roundings import trunc
from dynograd.ops.image.poolings import adaptive_average, adaptive_largest, average, largest, largest_values
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.op import composed
from dynograd.ops.precisions import check_floating
from dynograd.ops.row import Row

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]

FAMILY = Row(out=None, ragged="groups", functional=True)


@composed()
def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array | tuple[Array, ...]:
    """The largest value of each window of a sequence; see `max_pool2d`.

    Args:
        input (N, C, L) or (C, L): sequences.
        kernel_size: the size of a window.
        stride, padding, dilation, ceil_mode, return_indices: as in `max_pool2d`.
    Returns:
        (N, C, L') or (C, L'); with `return_indices` a pair of them, values and places.

    >>> dynograd.nn.functional.max_pool1d(tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composed()
def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array | tuple[Array, ...]:
    """The largest value of each window of an image. NaN wins; of equal values the first one gets the gradient.

    Args:
        input (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window, one number or (h, w).
        stride: places from one window to the next; the window's size when left out.
        padding: places on both sides that never win, at most half a window.
        dilation: places from one element of a window to the next.
        ceil_mode: also windows that reach over the edge, if they start inside.
        return_indices: also return where each maximum stands, counted over H * W.
    Returns:
        (N, C, H', W'), and with `return_indices` the int64 indices in the same shape.
    Raises:
        ShapeError: no window fits, or too much padding.

    >>> dynograd.nn.functional.max_pool2d(dynograd.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composed()
def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Array | tuple[Array, ...]:
    """The largest value of each window of a volume; see `max_pool2d`.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): volumes.
        kernel_size: the size of a window, one number or (d, h, w).
        stride, padding, dilation, ceil_mode, return_indices: as in `max_pool2d`.
    Returns:
        (N, C, D', H', W') or (C, D', H', W'); with `return_indices` a pair of them, values and places.

    >>> dynograd.nn.functional.max_pool3d(dynograd.arange(8.0).reshape(1, 1, 2, 2, 2), 2).item()
    7.0
    """
    return _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@composed()
def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """The mean of each window of a sequence; see `avg_pool2d`.

    Args:
        input (N, C, L) or (C, L): sequences.
        kernel_size: the size of a window.
        stride, padding, ceil_mode, count_include_pad: as in `avg_pool2d`.
    Returns:
        (N, C, L') or (C, L').

    >>> dynograd.nn.functional.avg_pool1d(tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@composed(out="cast")
def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window of an image.

    Args:
        input (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window, one number or (h, w).
        stride: places from one window to the next; the window's size when left out.
        padding: zeros on both sides, at most half a window.
        ceil_mode: also windows that reach over the edge, if they start inside.
        count_include_pad: whether padding counts in the mean.
        divisor_override: divide by this instead of the number of places.
    Returns:
        (N, C, H', W') or (C, H', W').
    Raises:
        ShapeError: no window fits, or too much padding.

    >>> dynograd.nn.functional.avg_pool2d(dynograd.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 2.5000,  4.5000],
              [10.5000, 12.5000]]]])
    """
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@composed(out="cast")
def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """The mean of each window of a volume; see `avg_pool2d`.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): volumes.
        kernel_size: the size of a window, one number or (d, h, w).
        stride, padding, ceil_mode, count_include_pad, divisor_override: as in `avg_pool2d`.
    Returns:
        (N, C, D', H', W') or (C, D', H', W').

    >>> dynograd.nn.functional.avg_pool3d(dynograd.arange(8.0).reshape(1, 1, 2, 2, 2), 2).item()
    3.5
    """
    return _avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@composed()
def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Array | tuple[Array, ...]:
    """The largest value of each of `output_size` windows of a sequence.

    Args:
        input (N, C, L) or (C, L): sequences.
        output_size: L', the number of windows.
        return_indices: also return where each maximum stands.
    Returns:
        (N, C, L') or (C, L'); with `return_indices` a pair of them, values and places.

    >>> dynograd.nn.functional.adaptive_max_pool1d(tensor([[1.0, 3.0, 2.0]]), 2)
    tensor([[3., 3.]])
    """
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


@composed()
def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Array:
    """The largest value of each of `output_size` windows of an image.

    Window i of n over H places goes from floor(i H / n) to ceil((i + 1) H / n).

    Args:
        input (N, C, H, W) or (C, H, W): images.
        output_size: (H', W') or one number for both; None keeps a size.
        return_indices: also return where each maximum stands, counted over H * W.
    Returns:
        (N, C, H', W') or (C, H', W'); with `return_indices` a pair of them, values and places.

    >>> dynograd.nn.functional.adaptive_max_pool2d(dynograd.arange(4.0).reshape(1, 2, 2), 1).item()
    3.0
    """
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


@composed()
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Array:
    """The largest value of each of `output_size` windows of a volume; see `adaptive_max_pool2d`.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): volumes.
        output_size: (D', H', W') or one number for all; None keeps a size.
        return_indices: also return where each maximum stands, counted over D * H * W.
    Returns:
        (N, C, D', H', W') or (C, D', H', W'); with `return_indices` a pair of them, values and places.

    >>> dynograd.nn.functional.adaptive_max_pool3d(dynograd.arange(8.0).reshape(1, 2, 2, 2), 1).item()
    7.0
    """
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices)


@composed()
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Array:
    """The mean of each of `output_size` windows of a sequence.

    Args:
        input (N, C, L) or (C, L): sequences.
        output_size: L', the number of windows.
    Returns:
        (N, C, L') or (C, L').

    >>> dynograd.nn.functional.adaptive_avg_pool1d(tensor([[1.0, 3.0, 2.0]]), 1)
    tensor([[2.]])
    """
    return _adaptive_avg("adaptive_avg_pool1d", 1, input, output_size)


@composed()
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Array:
    """The mean of each of `output_size` windows of an image; windows as in `adaptive_max_pool2d`.

    Args:
        input (N, C, H, W) or (C, H, W): images.
        output_size: (H', W') or one number for both; None keeps a size.
    Returns:
        (N, C, H', W') or (C, H', W').

    >>> dynograd.nn.functional.adaptive_avg_pool2d(dynograd.arange(4.0).reshape(1, 2, 2), 1).item()
    1.5
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, input, output_size)


@composed()
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Array:
    """The mean of each of `output_size` windows of a volume; windows as in `adaptive_max_pool2d`.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): volumes.
        output_size: (D', H', W') or one number for all; None keeps a size.
    Returns:
        (N, C, D', H', W') or (C, D', H', W').

    >>> dynograd.nn.functional.adaptive_avg_pool3d(dynograd.arange(8.0).reshape(1, 2, 2, 2), 1).item()
    3.5
    """
    return _adaptive_avg("adaptive_avg_pool3d", 3, input, output_size)


@composed()
def lp_pool1d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Array:
    """The p-norm of each window of a sequence; see `lp_pool2d`.

    Args:
        input (N, C, L) or (C, L): sequences.
        norm_type: p; 1 sums, large ones come near the maximum.
        kernel_size, stride, ceil_mode: as in `avg_pool1d`.
    Returns:
        (N, C, L') or (C, L').

    >>> dynograd.nn.functional.lp_pool1d(tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


@composed()
def lp_pool2d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Array:
    """(sum of x^p)^(1/p) over each window of an image: the p-norm of values that are not negative.

    Args:
        input (N, C, H, W) or (C, H, W): images.
        norm_type: p; 1 sums, large ones come near the maximum.
        kernel_size, stride, ceil_mode: as in `avg_pool2d`.
    Returns:
        (N, C, H', W') or (C, H', W').

    >>> dynograd.nn.functional.lp_pool2d(tensor([[[3.0, 4.0]]]), 2, (1, 2))
    tensor([[[5.]]])
    """
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


@composed()
def lp_pool3d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Array:
    """The p-norm of each window of a volume; see `lp_pool2d`.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): volumes.
        norm_type: p; 1 sums, large ones come near the maximum.
        kernel_size, stride, ceil_mode: as in `avg_pool3d`.
    Returns:
        (N, C, D', H', W') or (C, D', H', W').

    >>> dynograd.nn.functional.lp_pool3d(tensor([[[[3.0, 4.0]]]]), 2, (1, 1, 2))
    tensor([[[[5.]]]])
    """
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


# --- what they share ---------------------------------------------------------------------------------------------------------


def _max_pool(
    who: str,
    rank: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Array | tuple[Array, ...]:
    window = _window(who, rank, input, (kernel_size, stride, padding, dilation, bool(ceil_mode)))
    return tuple(largest(input, window)) if return_indices else largest_values(input, window)


def _avg_pool(
    who: str,
    rank: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Any,
) -> Array:
    check_rank(who, rank, input)
    if input.dtype == dtypes.int64:  # rounded towards 0, as in PyTorch; exact for sums below 2**53
        wide = convert(input, dtypes.float64)
        means = _avg_pool(who, rank, wide, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor)
        return convert(trunc(means), dtypes.int64)
    check_floating(who, input)
    if divisor is not None:
        divisor = whole_number(who, "divisor_override", divisor)
    if divisor == 0:
        raise RuntimeError(f"{who}: divisor must be not zero. Leave divisor_override out for the size of the window.")
    taps, steps, pads, _, ceil = _window(who, rank, input, (kernel_size, stride, padding, 1, bool(ceil_mode)))
    return average(input, (taps, steps, pads, ceil, bool(count_include_pad), divisor))


def _adaptive_max(who: str, rank: int, input: Any, output_size: Any, return_indices: bool) -> Array | tuple[Array, ...]:
    check_rank(who, rank, input)
    sizes = _output_sizes(who, rank, input, output_size)
    if 0 in tuple(input.shape[-rank:]) and 0 not in sizes:
        raise ShapeError(
            f"{who}: Expected input to have non-zero size for non-batch dimensions, got {tuple(input.shape)}."
        )
    result = adaptive_largest(input, sizes)
    return tuple(result) if return_indices else result[0]


def _adaptive_avg(who: str, rank: int, input: Any, output_size: Any) -> Array:
    check_rank(who, rank, input)
    check_floating(who, input)
    sizes = _output_sizes(who, rank, input, output_size)
    if 0 in tuple(input.shape[-rank:]):
        raise ShapeError(
            f"{who}: Expected input to have non-zero size for non-batch dimensions, got {tuple(input.shape)}."
        )
    return adaptive_average(input, sizes)


def _output_sizes(who: str, rank: int, input: Any, output_size: Any) -> tuple[int, ...]:
    operands = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if len(operands) != rank:
        raise ShapeError(f"{who}: output_size must be {rank} numbers (or one), got {output_size!r}.")
    own = tuple(input.shape[len(input.shape) - rank :])
    sizes = tuple([size if want is None else want.__index__() for want, size in zip(operands, own, strict=True)])
    if min(sizes) < 0:
        raise ShapeError(f"{who}: elements of output_size must be greater than or equal to 0, got {operands}.")
    return sizes


def _lp_pool(
    who: str, rank: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Array:
    taps = per_dim(who, "kernel_size", kernel_size, rank, 1)
    mean = _avg_pool(who, rank, pow(input, norm_type), taps, stride, 0, ceil_mode, True, None)
    total = mean * prod(taps)
    return pow(where(ne(total, 0), total, 0.0), 1.0 / norm_type)  # no slope where all is 0: the root's has no end there


def check_rank(who: str, rank: int, input: Any) -> None:
    shape = input if type(input) is tuple else input.shape
    if len(shape) not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{who}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor, but got input of shape {tuple(shape)}. Use unsqueeze to "
            f"add a channel or batch dim."
        )


def _window(who: str, rank: int, input: Any, window: tuple) -> tuple:
    """(kernel, stride, padding, dilation, ceil_mode) with a number for each dim, checked. Remembered for numbers and tuples of them."""
    shape = tuple(input.shape)
    for size in window:
        kind = type(size)
        if (
            kind is not int
            and size is not None
            and kind is not bool
            and (kind is not tuple or set(map(type, size)) != _INTS)
        ):
            return _checked_window(who, rank, shape, window)
    return _known_window(who, rank, shape, window)


_INTS = {int}


def _checked_window(who: str, rank: int, shape: tuple[int, ...], window: tuple) -> tuple:
    kernel_size, stride, padding, dilation, ceil_mode = window
    check_rank(who, rank, shape)
    taps = per_dim(who, "kernel_size", kernel_size, rank, 1)
    steps = taps if stride in (None, ()) or stride == [] else per_dim(who, "stride", stride, rank, 1)
    padding, dilation = per_dim(who, "padding", padding, rank, 0), per_dim(who, "dilation", dilation, rank, 1)
    if who.startswith("max_pool") and 0 in shape[-rank - 1 :]:
        raise ShapeError(
            f"{who}: Expected the dims of input behind the batch to have positive length, got shape {shape}."
        )
    _check_windows(who, shape, taps, steps, padding, dilation, ceil_mode)
    return taps, steps, padding, dilation, ceil_mode


_known_window = lru_cache(maxsize=256)(_checked_window)


def _check_windows(
    who: str, shape: tuple, taps: tuple, steps: tuple, padding: tuple, dilation: tuple, ceil_mode: bool
) -> None:
    rank = len(taps)
    own = shape[len(shape) - rank :]
    sizes = []
    for size, k, s, p, d in zip(own, taps, steps, padding, dilation, strict=True):
        if 2 * p > d * (k - 1) + 1:
            raise ShapeError(
                f"{who}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}."
            )
        sizes.append(kernel("poolings", "pooled_size", 0)(size, k, s, p, d, ceil_mode))
    if min(sizes) < 1:
        raise ShapeError(
            f"{who}: Given input size: {shape}. Calculated output size: {tuple(sizes)} in the last {rank} dims. Output size is "
            f"too small. Use a smaller kernel_size, or padding."
        )
