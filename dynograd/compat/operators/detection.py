"""The operators that torchvision has in a library of C++, as compositions of ops: `nms`, `roi_align` and their like, `deform_conv2d`.

`ops.load_library` calls `register` when torchvision asks for its library. Everything is made of differentiable ops, so the operators that
torchvision calls for gradients are those gradients.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy

from dynograd.autograd.modes import enable_grad
from dynograd.compat.operators import registry
from dynograd.compat.operators.schemas import parsed
from dynograd.nn import functional
from dynograd.tensor.tensor import Tensor

dynograd: Any = sys.modules["dynograd"]  # its public names, as programs have them: it lies above this layer

__all__ = ["register"]

_ROIS = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_BACK = "Tensor grad, Tensor rois"
_CONV = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask"
)
_POOLED = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Of boxes (N, 4) as (x1, y1, x2, y2), the places of those that no box of a higher score overlaps by more than the threshold.

    In the order of their scores; equal scores keep the order of the boxes.
    """
    boxes, order = (
        dets.detach().double().cpu().numpy(),
        numpy.argsort(-scores.detach().double().cpu().numpy(), kind="stable"),
    )
    x1, y1, x2, y2 = boxes.T if len(boxes) else numpy.zeros((4, 0))
    areas = (x2 - x1) * (y2 - y1)
    kept = []
    while len(order):
        best, order = order[0], order[1:]
        kept.append(best)
        width = numpy.minimum(x2[best], x2[order]) - numpy.maximum(x1[best], x1[order])
        height = numpy.minimum(y2[best], y2[order]) - numpy.maximum(y1[best], y1[order])
        shared = width.clip(0) * height.clip(0)
        with numpy.errstate(divide="ignore", invalid="ignore"):
            overlap = shared / (areas[best] + areas[order] - shared)
        order = order[~(overlap > iou_threshold)]
    return dynograd.tensor(numpy.array(kept, numpy.int64), device=dets.device)


def _samples(low: Tensor, size: Tensor, bins: int, count: int, length: int) -> tuple[Tensor, Tensor]:
    """Where `count` samples of each of `bins` bins lie, (K, bins * count), and 0 for those outside the image."""
    steps = (dynograd.arange(bins * count, dtype=low.dtype, device=low.device) + 0.5) / count
    places = low[:, None] + steps * (size / bins)[:, None]
    inside = (places >= -1) & (places <= length)
    return places.clamp(0, length - 1), inside.to(low.dtype)


def _grid(rows: Tensor, columns: Tensor, height: int, width: int) -> Tensor:
    """Places in pixels, (K, R) and (K, C), as a grid (K, R, C, 2) for `grid_sample` with align_corners."""
    y = rows * (2 / max(height - 1, 1)) - 1
    x = columns * (2 / max(width - 1, 1)) - 1
    shape = (*rows.shape, columns.shape[1])
    return dynograd.stack([x[:, None, :].expand(shape), y[:, :, None].expand(shape)], dim=-1)


def _sampled(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Bilinear samples of one image per place in the batch: images (N, C, H, W), places (N, K, R) and (N, K, S) -> (N, C, K, R, S)."""
    batch, count, height = rows.shape
    width = columns.shape[2]
    grid = _grid(rows.flatten(0, 1), columns.flatten(0, 1), *images.shape[2:]).reshape(batch, count * height, width, 2)
    samples = functional.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=True)
    return samples.reshape(batch, images.shape[1], count, height, width)


def _groups(rois: Tensor, per_bin: Callable[[int], tuple[int, int]]) -> dict[tuple[int, int, int], list[int]]:
    """(image, samples per bin and dim) -> the rois that have those."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for place, image in enumerate(rois[:, 0].tolist()):
        groups.setdefault((int(image), *per_bin(place)), []).append(place)
    return groups


def _counts(height: Tensor, width: Tensor, pooled: tuple[int, int], ratio: int) -> Callable[[int], tuple[int, int]]:
    if ratio > 0:
        return lambda place: (ratio, ratio)
    rows = (height / pooled[0]).ceil().clamp(min=0).tolist()
    columns = (width / pooled[1]).ceil().clamp(min=0).tolist()
    return lambda place: (int(rows[place]), int(columns[place]))


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Averages of bilinear samples in the bins of regions (He et al., "Mask R-CNN", 2017).

    input (N, C, H, W), rois (K, 5) as (image, x1, y1, x2, y2) -> (K, C, pooled_height, pooled_width).
    """
    pooled = pooled_height, pooled_width
    channels, height, width = input.shape[1:]
    corners = rois[:, 1:].detach().to(input.dtype) * spatial_scale - (0.5 if aligned else 0.0)
    sizes = corners[:, 2:] - corners[:, :2]
    if not aligned:
        sizes = sizes.clamp(min=1.0)
    results: list[Any] = [None] * len(rois)
    groups = _groups(rois, _counts(sizes[:, 1], sizes[:, 0], pooled, sampling_ratio))
    for (image, rows, columns), places in groups.items():
        if rows == 0 or columns == 0:
            block = input.new_zeros(len(places), channels, *pooled)
        else:
            y, in_y = _samples(corners[places, 1], sizes[places, 1], pooled[0], rows, height)
            x, in_x = _samples(corners[places, 0], sizes[places, 0], pooled[1], columns, width)
            samples = _sampled(input[image : image + 1], y[None], x[None])[0] * (in_y[:, :, None] * in_x[:, None, :])
            samples = samples.reshape(channels, len(places), pooled[0], rows, pooled[1], columns)
            block = samples.mean((3, 5)).transpose(0, 1)
        for place, row in zip(places, block):
            results[place] = row
    return dynograd.stack(results) if results else input.new_zeros(0, channels, *pooled) + 0 * input.sum()


def _own_channels(input: Tensor, pooled: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """(N, C, P, H, W): the channels of each bin of position-sensitive pooling; and their numbers (C, bins)."""
    bins = pooled[0] * pooled[1]
    channels = input.shape[1] // bins
    numbers = dynograd.arange(channels * bins, dtype=dynograd.int32, device=input.device).reshape(channels, *pooled)
    return input.reshape(input.shape[0], channels, bins, *input.shape[2:]), numbers


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """`roi_align` in which each bin reads channels of its own (Dai et al., "R-FCN", 2016); with it, the channels."""
    pooled = pooled_height, pooled_width
    height, width = input.shape[2:]
    split, numbers = _own_channels(input, pooled)
    channels = split.shape[1]
    corners = rois[:, 1:].detach().to(input.dtype) * spatial_scale - 0.5
    sizes = corners[:, 2:] - corners[:, :2]
    results: list[Any] = [None] * len(rois)
    groups = _groups(rois, _counts(sizes[:, 1], sizes[:, 0], pooled, sampling_ratio))
    for (image, rows, columns), places in groups.items():
        if rows == 0 or columns == 0:
            block = input.new_zeros(len(places), channels, *pooled)
        else:
            y, in_y = _samples(corners[places, 1], sizes[places, 1], pooled[0], rows, height)
            x, in_x = _samples(corners[places, 0], sizes[places, 0], pooled[1], columns, width)
            # One image per bin, of the bin's channels, read at the places of the bin.
            of_rows = [
                y.reshape(len(places), pooled[0], 1, rows).expand(-1, -1, pooled[1], -1),
                in_y.reshape(len(places), pooled[0], 1, rows, 1),
            ]
            of_columns = [
                x.reshape(len(places), 1, pooled[1], columns).expand(-1, pooled[0], -1, -1),
                in_x.reshape(len(places), 1, pooled[1], 1, columns),
            ]
            rows_of_bins = of_rows[0].reshape(len(places), -1, rows).transpose(0, 1)
            columns_of_bins = of_columns[0].reshape(len(places), -1, columns).transpose(0, 1)
            samples = _sampled(
                split[image].transpose(0, 1), rows_of_bins, columns_of_bins
            )  # (bins, C, K, rows, columns)
            inside = (of_rows[1] * of_columns[1]).reshape(len(places), -1, rows, columns).transpose(0, 1)
            block = (samples * inside[:, None]).mean((3, 4)).permute(2, 1, 0).reshape(len(places), channels, *pooled)
        for place, row in zip(places, block):
            results[place] = row
    output = dynograd.stack(results) if results else input.new_zeros(0, channels, *pooled) + 0 * input.sum()
    return output, numbers.expand(len(rois), -1, -1, -1)


def _bins(low: int, size: int, count: int, length: int) -> list[tuple[int, int]]:
    """First and last pixel of each bin of a region that lies perhaps partly outside the image."""
    step = numpy.float32(size) / numpy.float32(count)
    bins = []
    for number in range(count):
        first = int(numpy.floor(numpy.float32(number) * step)) + low
        last = int(numpy.ceil(numpy.float32(number + 1) * step)) + low
        bins.append((min(max(first, 0), length), min(max(last, 0), length)))
    return bins


def _rounded(values: Any) -> list[int]:
    """To the nearest whole number, halves away from 0."""
    return [int(numpy.copysign(numpy.floor(abs(value) + 0.5), value)) for value in values]


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The largest value in each bin of regions (Girshick, "Fast R-CNN", 2015), and its place in the image (-1: an empty bin)."""
    height, width = input.shape[2:]
    values, places = [], []
    for image, *corners in (
        rois.detach() * dynograd.tensor([1.0] + [spatial_scale] * 4, dtype=rois.dtype, device=rois.device)
    ).tolist():
        x1, y1, x2, y2 = _rounded(corners)
        picture = input[int(image)]
        for top, bottom in _bins(y1, max(y2 - y1 + 1, 1), pooled_height, height):
            for left, right in _bins(x1, max(x2 - x1 + 1, 1), pooled_width, width):
                if bottom <= top or right <= left:
                    values.append(picture.new_zeros(picture.shape[0]))
                    places.append(dynograd.full((picture.shape[0],), -1, dtype=dynograd.int64, device=input.device))
                    continue
                largest, place = picture[:, top:bottom, left:right].flatten(1).max(1)
                wide = right - left
                values.append(largest)
                places.append((place // wide + top) * width + place % wide + left)
    shape = (len(rois), pooled_height * pooled_width, input.shape[1])
    if not values:
        empty = input.new_zeros(0, input.shape[1], pooled_height, pooled_width)
        return empty, empty.to(dynograd.int32)
    output = dynograd.stack(values).reshape(shape).transpose(1, 2).reshape(len(rois), -1, pooled_height, pooled_width)
    indices = dynograd.stack(places).reshape(shape).transpose(1, 2).reshape(output.shape)
    return output, indices.to(dynograd.int32)


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Averages of the bins of regions, each of channels of its own (Dai et al., "R-FCN", 2016); with them, the channels."""
    height, width = input.shape[2:]
    split, numbers = _own_channels(input, (pooled_height, pooled_width))
    values = []
    for image, *corners in rois.detach().tolist():
        x1, y1, x2, y2 = _rounded([corner * spatial_scale for corner in _rounded(corners)])
        rows = _bins(y1, max(y2 - y1, 1), pooled_height, height)
        columns = _bins(x1, max(x2 - x1, 1), pooled_width, width)
        for number, (top, bottom) in enumerate(rows):
            for other, (left, right) in enumerate(columns):
                picture = split[int(image), :, number * pooled_width + other]
                empty = bottom <= top or right <= left
                values.append(
                    picture.new_zeros(picture.shape[0]) if empty else picture[:, top:bottom, left:right].mean((1, 2))
                )
    output = dynograd.stack(values) if values else input.new_zeros(0, split.shape[1])
    output = output.reshape(len(rois), pooled_height, pooled_width, split.shape[1]).permute(0, 3, 1, 2)
    return output, numbers.expand(len(rois), -1, -1, -1)


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """A convolution that reads at places moved by `offset` and weighted by `mask` (Zhu et al., "Deformable ConvNets v2", 2018).

    input (N, C, H, W), weight (O, C / groups, kh, kw), offset (N, 2 * offset_groups * kh * kw, H', W') -> (N, O, H', W').
    """
    batch, channels, height, width = input.shape
    kernel_h, kernel_w = weight.shape[2:]
    out_h, out_w = offset.shape[2:]
    taps = kernel_h * kernel_w
    options: dict[str, Any] = dict(dtype=input.dtype, device=input.device)
    moved = offset.reshape(batch * offset_groups, taps, 2, out_h, out_w)
    tap_rows = dynograd.arange(kernel_h, **options).repeat_interleave(kernel_w) * dilation_h
    tap_columns = dynograd.arange(kernel_w, **options).repeat(kernel_h) * dilation_w
    rows = moved[:, :, 0] + tap_rows[:, None, None] + (dynograd.arange(out_h, **options) * stride_h - pad_h)[:, None]
    columns = moved[:, :, 1] + tap_columns[:, None, None] + (dynograd.arange(out_w, **options) * stride_w - pad_w)
    grid = dynograd.stack([columns * (2 / max(width - 1, 1)) - 1, rows * (2 / max(height - 1, 1)) - 1], dim=-1)
    images = input.reshape(batch * offset_groups, channels // offset_groups, height, width)
    grid = grid.reshape(batch * offset_groups, taps * out_h, out_w, 2)
    read = functional.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
    read = read.reshape(batch, offset_groups, channels // offset_groups, taps, out_h * out_w)
    if use_mask:
        read = read * mask.reshape(batch, offset_groups, 1, taps, out_h * out_w)
    read = read.reshape(batch, groups, channels // groups * taps, out_h * out_w)
    kernels = weight.reshape(groups, weight.shape[0] // groups, -1)
    return (kernels @ read).reshape(batch, weight.shape[0], out_h, out_w) + bias[:, None, None]


def _through(forward: Callable[..., Any], grad: Tensor, shape: tuple, rois: Tensor, *options: Any) -> Tensor:
    """The gradient for the images, on which the result depends linearly."""
    with enable_grad():
        images = grad.new_zeros(shape).requires_grad_()
        result = forward(images, rois, *options)
        output = result[0] if isinstance(result, tuple) else result
        return dynograd.autograd.grad(output, images, grad)[0] if output.requires_grad else images.detach()


def _roi_align_backward(grad: Tensor, rois: Tensor, scale: float, rows: int, columns: int, *rest: Any) -> Tensor:
    return _through(roi_align, grad, rest[:4], rois, scale, rows, columns, *rest[4:])


def _ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, scale: float, rows: int, columns: int, ratio: int, *shape: int
) -> Tensor:
    return _through(ps_roi_align, grad, shape, rois, scale, rows, columns, ratio)


def _ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, scale: float, rows: int, columns: int, *shape: int
) -> Tensor:
    return _through(ps_roi_pool, grad, shape, rois, scale, rows, columns)


def _roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    argmax: Tensor,
    scale: float,
    rows: int,
    columns: int,
    batch: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    kept = argmax >= 0
    images = (
        rois[:, 0].long()[:, None, None, None] * channels + dynograd.arange(channels, device=grad.device)[:, None, None]
    )
    places = (images * (height * width) + argmax.long().clamp(min=0)).flatten()
    result = grad.new_zeros(batch * channels * height * width)
    return result.index_add(0, places, (grad * kept.to(grad.dtype)).flatten()).reshape(batch, channels, height, width)


def _deform_conv2d_backward(grad: Tensor, *args: Any) -> tuple[Tensor, ...]:
    with enable_grad():
        leaves: list[Any] = [value.detach().requires_grad_() for value in args[:5]]
        rest: Any = args[5:]
        output = deform_conv2d(*leaves, *rest)
        grads = dynograd.autograd.grad(output, leaves, grad, allow_unused=True)
    return tuple([leaf.new_zeros(leaf.shape) if each is None else each for leaf, each in zip(leaves, grads)])


def _cuda_version() -> int:
    """-1: the operators are not made of a CUDA toolkit."""
    return -1


_OPERATORS: dict[Callable[..., Any], str] = {
    nms: "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    roi_align: f"({_ROIS}, int sampling_ratio, bool aligned) -> Tensor",
    _roi_align_backward: f"({_BACK}, {_POOLED}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor",
    roi_pool: f"({_ROIS}) -> (Tensor, Tensor)",
    _roi_pool_backward: f"({_BACK}, Tensor argmax, {_POOLED}, {_SIZES}) -> Tensor",
    ps_roi_align: f"({_ROIS}, int sampling_ratio) -> (Tensor, Tensor)",
    _ps_roi_align_backward: f"({_BACK}, Tensor channel_mapping, {_POOLED}, int sampling_ratio, {_SIZES}) -> Tensor",
    ps_roi_pool: f"({_ROIS}) -> (Tensor, Tensor)",
    _ps_roi_pool_backward: f"({_BACK}, Tensor channel_mapping, {_POOLED}, {_SIZES}) -> Tensor",
    deform_conv2d: f"(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_CONV}) -> Tensor",
    _deform_conv2d_backward: f"(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_CONV}) "
    f"-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _cuda_version: "() -> int",
}
_REFUSED = {
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align": f"(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, {_POOLED}, "
    f"int sampling_ratio, bool aligned) -> Tensor",
    "box_iou_rotated": "(Tensor boxes1, Tensor boxes2) -> Tensor",
}


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Any) -> NoReturn:
        own = ", ".join([each.__name__ for each in _OPERATORS if each.__name__[0] != "_"])
        raise NotImplementedError(f"torchvision::{name} is not here: of torchvision's operators there are {own}.")

    return refuse


@functools.cache
def register() -> None:
    """Makes the operators `torch.ops.torchvision.*`."""
    functions = {function.__name__: function for function in _OPERATORS} | {name: _refused(name) for name in _REFUSED}
    schemas = {function.__name__: schema for function, schema in _OPERATORS.items()} | _REFUSED
    for name, function in functions.items():
        operator = registry.register(parsed(f"torchvision::{name}{schemas[name]}"))
        operator.kernels["any"] = function
