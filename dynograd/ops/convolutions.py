"""Convolution over one, two or three spatial dims, its transpose, and the three mutually adjoint ops behind both.

`correlate(x, w)`, `correlate_back(g, w)` and `correlate_weight(x, g)` are the convolution, its gradient for x and its gradient for
w. Each is bilinear, and the backward of each is written with the other two, so that gradients of every order exist. Transposed
convolution is `correlate_back`.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.errors import DtypeError, ShapeError
from dynograd.kernels import kernel
from dynograd.ops.indexing import get_basic
from dynograd.ops.op import composed, op
from dynograd.ops.reductions import sum_dims
from dynograd.ops.views import reshaped

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


# --- the three ops -----------------------------------------------------------------------------------------------------------


@op(name="convolution", saves="input weight")
def correlate(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    """The convolution of (N, C, *sizes) with (CO, C / groups, *kernel), plus a bias per output channel."""
    out = kernel("convolutions", "conv_forward", input)(input, weight, stride, padding, dilation, groups)
    return _with_bias(out, bias)


@correlate.backward
def correlate_backward(g: Any, saved: Any, *window: Any) -> Any:
    x, w = saved.input, saved.weight
    return (
        correlate_back(g, w, None, tuple(x.shape), *window) if saved.needs(0) else None,
        correlate_weight(x, g, tuple(w.shape), *window) if saved.needs(1) else None,
        _bias_gradient(g) if saved.needs(2) else None,
    )


@correlate.jvp
def correlate_jvp(tangents: Any, saved: Any, *window: Any) -> Any:
    x_way, w_way, b_way = tangents
    return _total(
        None if x_way is None else correlate(x_way, saved.weight, None, *window),
        None if w_way is None else correlate(saved.input, w_way, None, *window),
        None if b_way is None else _per_channel(b_way, len(saved.weight.shape)),
    )


@op(name="convolution_input_gradient", saves="g weight")
def correlate_back(
    g: Array,
    weight: Array,
    bias: Array | None,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    """What `g` (N, CO, *) sends back to an input of `shape`: the gradient of `correlate` for its input, plus a bias."""
    out = kernel("convolutions", "conv_input_gradient", g)(g, weight, shape, stride, padding, dilation, groups)
    return _with_bias(out, bias)


@correlate_back.backward
def correlate_back_backward(outer: Any, saved: Any, shape: Any, *window: Any) -> Any:
    g, w = saved.g, saved.weight
    return (
        _cut(correlate(outer, w, None, *window), tuple(g.shape)) if saved.needs(0) else None,
        correlate_weight(outer, g, tuple(w.shape), *window) if saved.needs(1) else None,
        _bias_gradient(outer) if saved.needs(2) else None,
    )


@correlate_back.jvp
def correlate_back_jvp(tangents: Any, saved: Any, shape: Any, *window: Any) -> Any:
    g_way, w_way, b_way = tangents
    return _total(
        None if g_way is None else correlate_back(g_way, saved.weight, None, shape, *window),
        None if w_way is None else correlate_back(saved.g, w_way, None, shape, *window),
        None if b_way is None else _per_channel(b_way, len(saved.weight.shape)),
    )


@op(name="convolution_weight_gradient", saves="input g")
def correlate_weight(
    input: Array,
    g: Array,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    """What `g` sends back to a weight of `shape`: the gradient of `correlate` for its weight."""
    return kernel("convolutions", "conv_weight_gradient", input)(input, g, shape, stride, padding, dilation, groups)


@correlate_weight.backward
def correlate_weight_backward(outer: Any, saved: Any, shape: Any, *window: Any) -> Any:
    x, g = saved.input, saved.g
    return (
        correlate_back(g, outer, None, tuple(x.shape), *window) if saved.needs(0) else None,
        _cut(correlate(x, outer, None, *window), tuple(g.shape)) if saved.needs(1) else None,
    )


@correlate_weight.jvp
def correlate_weight_jvp(tangents: Any, saved: Any, *window: Any) -> Any:
    x_way, g_way = tangents
    return _total(
        None if x_way is None else correlate_weight(x_way, saved.g, *window),
        None if g_way is None else correlate_weight(saved.input, g_way, *window),
    )


def _with_bias(out: Any, bias: Any) -> Any:
    if bias is not None:
        arrays.add_into(out, bias.reshape((-1, *(1,) * (out.ndim - 2))))
    return out


def _per_channel(bias: Any, rank: int) -> Any:
    return reshaped(bias, (-1, *(1,) * (rank - 2)))


def _bias_gradient(g: Any) -> Any:
    return sum_dims(g, (0, *range(2, len(g.shape))), False)


def _total(*parts: Any) -> Any:
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def _cut(array: Any, shape: tuple[int, ...]) -> Any:
    """Without the last windows, which start in what output_padding added."""
    if tuple(array.shape) == shape:
        return array
    return get_basic(array, tuple([slice(0, size) for size in shape]))


# --- the functions -----------------------------------------------------------------------------------------------------------


@composed()
def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
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


@composed()
def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
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


@composed()
def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Cross-correlation over volumes (N, C, D, H, W) or (C, D, H, W); arguments as in `conv2d`.

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
) -> Any:
    """The transpose of `conv1d`: spreads each place of `input` over a window of the output; see `conv_transpose2d`.

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
) -> Any:
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
) -> Any:
    """The transpose of `conv3d`; arguments as in `conv_transpose2d`.

    >>> dynograd.conv_transpose3d(dynograd.ones(1, 1, 1, 1, 1), dynograd.ones(1, 1, 2, 2, 2)).shape
    dynograd.Size([1, 1, 2, 2, 2])
    """
    return _spread("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def _convolve(
    who: str, rank: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
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
) -> Any:
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
    for size, taps, s, p, more, d in zip(input.shape[2:], weight.shape[2:], stride, padding, extra, dilation, strict=True):
        if more >= max(s, d):
            raise ShapeError(
                f"{who}: output padding must be smaller than either stride or dilation, but got output_padding={more}, stride={s}, "
                f"dilation={d}."
            )
        sizes.append((size - 1) * s - 2 * p + d * (taps - 1) + more + 1)
    if min(sizes) <= 0:
        raise ShapeError(
            f"{who}: Given input size per channel: {_by(input.shape[2:])}. Calculated output size per channel: {_by(sizes)}. Output size "
            f"is too small. Use less padding."
        )
    shape = (input.shape[0], outer, *sizes)
    out = correlate_back(input, weight, bias, shape, stride, padding, dilation, groups)
    return reshaped(out, tuple(out.shape[1:])) if single else out


def per_dim(who: str, name: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """A number for each spatial dim, from one number or a sequence of 1 or `rank`; each at least `least`."""
    try:
        found = tuple([one.__index__() for one in (value if isinstance(value, (tuple, list)) else (value,))])
    except AttributeError:
        raise TypeError(f"{who}: {name} must be an int or a tuple of ints, got {value!r}.") from None
    if len(found) == 1:
        found = found * rank
    if len(found) != rank:
        raise ShapeError(
            f"{who}: expected {name} to be a single integer value or a list of {rank} values to match the convolution dimensions, but "
            f"got {name}={list(found)}."
        )
    if min(found) < least:
        what = "negative" if least == 0 else "non-positive"
        raise ShapeError(f"{who}: {what} {name} is not supported, got {list(found)}.")
    return found


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
    channels, wanted = input.shape[1], weight.shape[1] * groups
    if channels != wanted:
        raise ShapeError(
            f"{who}: Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have {wanted} "
            f"channels, but got {channels} channels instead. Build the layer with in_channels={channels}, or permute input to (N, C, ...)."
        )
    if weight.shape[0] % groups:
        raise ShapeError(
            f"{who}: Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead."
        )


def _check_kernel(who: str, input: Any, weight: Any, padding: tuple, dilation: tuple) -> None:
    room = [size + 2 * p for size, p in zip(input.shape[2:], padding, strict=True)]
    reach = [d * (taps - 1) + 1 for taps, d in zip(weight.shape[2:], dilation, strict=True)]
    if any([wanted > size for wanted, size in zip(reach, room, strict=True)]):
        raise ShapeError(
            f"{who}: Calculated padded input size per channel: {_by(room)}. Kernel size: {_by(reach)}. Kernel size can't be greater than "
            f"actual input size (input {list(input.shape)}, weight {list(weight.shape)}). Use padding, or a smaller kernel."
        )


def _bias_error(who: str, weight: Any, bias: Any, wanted: int) -> ShapeError:
    return ShapeError(
        f"{who}: Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {wanted} elements, but got bias of "
        f"size {list(bias.shape)} instead."
    )


def _by(sizes: Any) -> str:
    return f"({' x '.join(map(str, sizes))})"


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
        from dynograd.ops.paddings import pad_constant

        input = pad_constant(input, ((0, 0), (0, 0), *[(0, total % 2) for total in totals]), 0.0)
    return input, tuple([total // 2 for total in totals])
