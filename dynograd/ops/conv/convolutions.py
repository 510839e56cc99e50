"""Convolution over one, two or three spatial dims, and its transpose. The ops behind both are in `correlations.py`."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.errors import DtypeError, ShapeError
from dynograd.ops.conv.correlations import correlate, correlate_back
from dynograd.ops.conv.spatial_sizes import by, per_dim
from dynograd.ops.layout.paddings import pad_constant
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import composed
from dynograd.ops.row import Row

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

FAMILY = Row(out=None, ragged="groups", functional=True, cast="lower")


@composed(work="convolution")
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation over a sequence: sums `weight` times windows of `input`.

    Args:
        input (N, C, L) or (C, L).
        weight (CO, C / groups, kernel): one filter for each output channel.
        bias (CO,): added to every position.
        stride: places from one window to the next.
        padding: zeros on both sides; "same" keeps L (stride 1), "valid" is 0.
        dilation: places from one tap of the kernel to the next.
        groups: parts of the channels that do not see each other.
    Returns:
        (N, CO, L') with L' = (L + 2 padding - dilation (kernel - 1) - 1) // stride + 1.
    Raises:
        ShapeError: channels, kernel or groups that do not fit.

    >>> dynograd.conv1d(tensor([[[1.0, 2.0, 3.0]]]), tensor([[[1.0, 1.0]]]))
    tensor([[[3., 5.]]])
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composed(work="convolution")
def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation over images: sums `weight` times windows of `input`.

    Args:
        input (N, C, H, W) or (C, H, W).
        weight (CO, C / groups, KH, KW): one filter for each output channel.
        bias (CO,): added to every position.
        stride: places from one window to the next: a number, or one for each spatial dim, as are padding and dilation.
        padding: zeros on both sides; "same" keeps H and W (stride 1), "valid" is 0.
        dilation: places from one tap of the kernel to the next.
        groups: parts of the channels that do not see each other.
    Returns:
        (N, CO, H', W') with H' = (H + 2 padding - dilation (KH - 1) - 1) // stride + 1.
    Raises:
        ShapeError: channels, kernel or groups that do not fit.

    >>> dynograd.conv2d(dynograd.ones(1, 1, 3, 3), dynograd.ones(1, 1, 2, 2))
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composed(work="convolution")
def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation over volumes (N, C, D, H, W) or (C, D, H, W); arguments as in `conv2d`.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): volumes.
        weight (K, C / groups, d, h, w): K filters.
        bias (K,): added to each channel of the result; None: nothing is.
        stride, padding, dilation: an int, or three; padding also "valid" or "same".
        groups: into how many groups channels and filters are cut; a divisor of C and K.
    Returns:
        (N, K, D', H', W'), with D' = (D + 2 * padding - dilation * (d - 1) - 1) // stride + 1, and so on; without N if `input` has
        none.
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.conv3d(dynograd.ones(1, 1, 2, 2, 2), dynograd.ones(1, 1, 2, 2, 2)).item()
    8.0
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@composed()
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Array:
    """The transpose of `conv1d`: spreads each place of `input` over a window of the output; see `conv_transpose2d`.

    Args:
        input (N, C, L) or (C, L): signals.
        weight (C, K / groups, l): a filter for each channel of `input`.
        bias (K,): added to each channel of the result; None: nothing is.
        stride, padding, output_padding, dilation: an int; output_padding below stride or dilation.
        groups: into how many groups the channels are cut.
    Returns:
        (N, K, L'), with L' = (L - 1) * stride - 2 * padding + dilation * (l - 1) + output_padding + 1.
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.conv_transpose1d(tensor([[[1.0, 2.0]]]), tensor([[[1.0, 1.0]]]), stride=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return _spread("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composed()
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Array:
    """The transpose of `conv2d`: spreads each place of `input` over a window of the output.

    Args:
        input (N, C, H, W) or (C, H, W).
        weight (C, CO / groups, KH, KW).
        bias (CO,): added to every position.
        stride: places from one window to the next: a number, or one for each spatial dim, as are the others.
        padding: places cut off on both sides.
        output_padding: places added at the end, below stride or dilation; chooses among the sizes that `conv2d` maps to H.
        groups: parts of the channels that do not see each other.
        dilation: places from one tap of the kernel to the next.
    Returns:
        (N, CO, H', W') with H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1.
    Raises:
        ShapeError: channels, kernel or groups that do not fit.

    >>> dynograd.conv_transpose2d(dynograd.ones(1, 1, 2, 2), dynograd.ones(1, 1, 1, 2))
    tensor([[[[1., 2., 1.],
              [1., 2., 1.]]]])
    """
    return _spread("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@composed()
def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Array:
    """The transpose of `conv3d`; arguments as in `conv_transpose2d`.

    Args:
        input (N, C, D, H, W) or (C, D, H, W): volumes.
        weight (C, K / groups, d, h, w): a filter for each channel of `input`.
        bias (K,): added to each channel of the result; None: nothing is.
        stride, padding, output_padding, dilation: an int, or three; output_padding below stride or dilation.
        groups: into how many groups the channels are cut.
    Returns:
        (N, K, D', H', W'), with D' = (D - 1) * stride - 2 * padding + dilation * (d - 1) + output_padding + 1, and so on.
    Raises:
        ShapeError: sizes that do not fit.

    >>> dynograd.conv_transpose3d(dynograd.ones(1, 1, 1, 1, 1), dynograd.ones(1, 1, 2, 2, 2)).shape
    dynograd.Size([1, 1, 2, 2, 2])
    """
    return _spread("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _convolve(
    who: str, rank: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Array:
    single = _check(who, rank, input, weight, bias, groups)
    if single:
        input = reshaped(input, (1, *input.shape))
    stride, dilation = per_dim(who, "stride", stride, rank, 1), per_dim(who, "dilation", dilation, rank, 1)
    if isinstance(padding, str):
        input, padding = _padded(who, input, weight, padding, stride, dilation)
    else:
        padding = per_dim(who, "padding", padding, rank, 0)
    _check_channels(who, input, weight, groups)
    _check_kernel(who, input, weight, padding, dilation)
    if bias is not None and bias.shape != (weight.shape[0],):
        raise _bias_error(who, weight, bias, weight.shape[0])
    out = correlate(input, weight, bias, stride, padding, dilation, groups)
    return reshaped(out, tuple(out.shape[1:])) if single else out


def _spread(
    who: str,
    rank: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Array:
    single = _check(who, rank, input, weight, bias, groups)
    if single:
        input = reshaped(input, (1, *input.shape))
    stride, dilation = per_dim(who, "stride", stride, rank, 1), per_dim(who, "dilation", dilation, rank, 1)
    padding, extra = per_dim(who, "padding", padding, rank, 0), per_dim(who, "output_padding", output_padding, rank, 0)
    if input.shape[1] != weight.shape[0]:
        raise ShapeError(
            f"{who}: Given transposed=1, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
            f"{weight.shape[0]} channels, but got {input.shape[1]} channels instead. The weight is (C, CO / groups, *kernel)."
        )
    if weight.shape[0] % groups:
        raise ShapeError(f"{who}: expected the {weight.shape[0]} channels of input to be divisible by groups={groups}.")
    outer = weight.shape[1] * groups
    if bias is not None and bias.shape != (outer,):
        raise _bias_error(who, weight, bias, outer)
    sizes = []
    for size, taps, s, p, more, d in zip(
        input.shape[2:], weight.shape[2:], stride, padding, extra, dilation, strict=True
    ):
        if more >= max(s, d):
            raise ShapeError(
                f"{who}: output padding must be smaller than either stride or dilation, but got output_padding={more}, stride={s}, "
                f"dilation={d}."
            )
        sizes.append((size - 1) * s - 2 * p + d * (taps - 1) + more + 1)
    if min(sizes) <= 0:
        raise ShapeError(
            f"{who}: Given input size per channel: {by(input.shape[2:])}. Calculated output size per channel: {by(sizes)}. Output size "
            f"is too small. Use less padding."
        )
    if max(stride) == 1 and max(extra) > 0:
        # without gaps between the windows there is nothing to choose: all that windows reach, then cut or widened
        full = [size + 2 * p - more for size, p, more in zip(sizes, padding, extra, strict=True)]
        out = correlate_back(input, weight, None, (input.shape[0], outer, *full), stride, (0,) * rank, dilation, groups)
        out = pad_constant(
            out, ((0, 0), (0, 0), *[(-p, more - p) for p, more in zip(padding, extra, strict=True)]), 0.0
        )
        out = out if bias is None else out + reshaped(bias, (-1, *(1,) * rank))
    else:
        shape = (input.shape[0], outer, *sizes)
        out = correlate_back(input, weight, bias, shape, stride, padding, dilation, groups)
    return reshaped(out, tuple(out.shape[1:])) if single else out


def _check(who: str, rank: int, input: Any, weight: Any, bias: Any, groups: int) -> bool:
    """Whether `input` is a single example; raises when ranks, dtypes or groups are wrong."""
    x, w = getattr(input, "array", input), getattr(weight, "array", weight)
    if w.ndim != rank + 2:
        raise ShapeError(f"{who}: expected a weight of {rank + 2} dims, got shape {tuple(w.shape)}.")
    if x.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"{who}: Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {who}, but got input of size: {list(x.shape)}. "
            f"Use unsqueeze to add a channel or batch dim."
        )
    for name, other in (("weight", w), ("bias", None if bias is None else getattr(bias, "array", bias))):
        if other is not None and other.dtype != x.dtype:
            raise DtypeError(
                f"{who}: Input type ({x.dtype}) and {name} type ({other.dtype}) should be the same. Convert one of them, e.g. "
                f"input.to(weight.dtype)."
            )
    if groups <= 0:
        raise ShapeError(f"{who}: non-positive groups is not supported, got {groups}.")
    return x.ndim == rank + 1


def _check_channels(who: str, input: Any, weight: Any, groups: int) -> None:
    channels, expected = input.shape[1], weight.shape[1] * groups
    if channels != expected:
        raise ShapeError(
            f"{who}: Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have {expected} "
            f"channels, but got {channels} channels instead. Build the layer with in_channels={channels}, or permute input to (N, C, ...)."
        )
    if weight.shape[0] % groups:
        raise ShapeError(
            f"{who}: Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead."
        )


def _check_kernel(who: str, input: Any, weight: Any, padding: tuple, dilation: tuple) -> None:
    if any([not isinstance(size, int) for size in input.shape[2:]]):
        return  # in a vmap over rows of different lengths, which are checked where they are known
    room = [size + 2 * p for size, p in zip(input.shape[2:], padding, strict=True)]
    reach = [d * (taps - 1) + 1 for taps, d in zip(weight.shape[2:], dilation, strict=True)]
    if any([expected > size for expected, size in zip(reach, room, strict=True)]):
        raise ShapeError(
            f"{who}: Calculated padded input size per channel: {by(room)}. Kernel size: {by(reach)}. Kernel size can't be greater than "
            f"actual input size (input {list(input.shape)}, weight {list(weight.shape)}). Use padding, or a smaller kernel."
        )


def _bias_error(who: str, weight: Any, bias: Any, size: int) -> ShapeError:
    return ShapeError(
        f"{who}: Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {size} elements, but got bias of "
        f"size {list(bias.shape)} instead."
    )


def _padded(who: str, input: Any, weight: Any, padding: str, stride: tuple, dilation: tuple) -> tuple[Any, tuple]:
    """`input` and the padding that "same" or "valid" stands for; where the two sides differ, the odd zero is put on already."""
    rank = len(stride)
    if padding == "valid":
        return input, (0,) * rank
    if padding != "same":
        raise ValueError(f"{who}: Invalid padding string '{padding}', should be one of 'valid', 'same'.")
    if max(stride) > 1:
        raise ShapeError(f"{who}: padding='same' is not supported for strided convolutions, got stride={list(stride)}.")
    totals = [d * (taps - 1) for taps, d in zip(weight.shape[2:], dilation, strict=True)]
    if any([total % 2 for total in totals]):
        input = pad_constant(input, ((0, 0), (0, 0), *[(0, total % 2) for total in totals]), 0.0)
    return input, tuple([total // 2 for total in totals])
