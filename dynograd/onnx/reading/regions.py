"""Columns put together to images, regions of images, and convolutions that look where offsets say."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.errors import OnnxError
from dynograd.nn import functional
from dynograd.onnx.reading.products import padded
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, dynograd, ints, tensor_of
from dynograd.tensor.tensor import Tensor


@operator("Col2Im")
def col2im(
    x: Tensor,
    image_shape: Numbers,
    block_shape: Numbers,
    *,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Tensor:
    image, block = ints(image_shape), ints(block_shape)
    dims = len(image)
    strides, dilations, pads = strides or [1] * dims, dilations or [1] * dims, pads or [0] * 2 * dims
    sizes = [size + before + behind for size, before, behind in zip(image, pads[:dims], pads[dims:])]
    places = numpy.zeros((1, 1), int)  # (elements of a block, blocks) in the padded image
    for size, width, stride, dilation in zip(sizes, block, strides, dilations):
        count = (size - dilation * (width - 1) - 1) // stride + 1
        along = numpy.arange(width)[:, None] * dilation + numpy.arange(count) * stride
        places = places[:, None, :, None] * size + along[None, :, None, :]
        places = places.reshape(places.shape[0] * width, -1)
    rows = x.shape[0] * (x.shape[1] // math.prod(block))
    y = dynograd.zeros(rows, math.prod(sizes), dtype=x.dtype)
    y = y.index_add(1, tensor_of(places.reshape(-1)), x.reshape(rows, -1))
    return padded(y.reshape(x.shape[0], -1, *sizes), [-amount for amount in pads])


def _corners(starts: numpy.ndarray, size: int) -> list[numpy.ndarray]:
    """Two (samples, size) matrices: the shares of the pixels before and behind each sample."""
    inside = (starts >= -1) & (starts <= size)
    at = numpy.clip(starts, 0, size - 1)
    low = numpy.minimum(at.astype(int), size - 1)
    high, share = numpy.minimum(low + 1, size - 1), at - low
    pixels = numpy.eye(size)
    return [pixels[low] * ((1 - share) * inside)[:, None], pixels[high] * (share * inside)[:, None]]


@operator("RoiAlign", since=16)
def roi_align(
    x: Tensor, rois: Tensor, batches: Tensor, *, coordinate_transformation_mode: str = "half_pixel", mode: str = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    half = coordinate_transformation_mode == "half_pixel"
    results = []
    for box, batch in zip(rois.tolist(), ints(batches)):
        left, top, right, bottom = (corner * spatial_scale - 0.5 * half for corner in box)
        matrices, counts = [], []
        for start, end, out, size in (
            (top, bottom, output_height, x.shape[2]),
            (left, right, output_width, x.shape[3]),
        ):
            length = end - start if half else max(end - start, 1.0)
            count = sampling_ratio or math.ceil(length / out)
            points = start + (numpy.arange(out * count) + 0.5) * length / (out * count)
            matrices.append([tensor_of(corner).to(x.dtype) for corner in _corners(points, size)])
            counts.append(count)
        parts = [rows @ x[batch] @ columns.T for rows in matrices[0] for columns in matrices[1]]
        corners = dynograd.stack(parts)
        samples = corners.sum(0) if mode == "avg" else corners.amax(0)
        samples = samples.reshape(-1, output_height, counts[0], output_width, counts[1])
        results.append(samples.mean((2, 4)) if mode == "avg" else samples.amax((2, 4)))
    return dynograd.stack(results) if results else x.new_zeros(0, x.shape[1], output_height, output_width)


@operator("RoiAlign", since=10)
def roi_align_10(x: Tensor, rois: Tensor, batches: Tensor, **options: Any) -> Tensor:
    return roi_align(x, rois, batches, coordinate_transformation_mode="output_half_pixel", **options)


@operator("DeformConv")
def deform_conv(
    x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None, mask: Tensor | None = None, *, dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, offset_group: int = 1, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    if x.ndim != 4:
        raise OnnxError(f"DeformConv: x has {x.ndim} dims. Expected 4, images with channels; others are not read.")
    (n, channels, *sizes), (filters, _, *kernel), outs = x.shape, w.shape, offset.shape[2:]
    strides, dilations, pads = strides or [1, 1], dilations or [1, 1], pads or [0] * 4
    taps = kernel[0] * kernel[1]
    shifts = offset.reshape(n * offset_group, *kernel, 2, *outs)
    grid = []
    for axis in (1, 0):  # grid_sample wants columns before rows
        steps = dynograd.arange(outs[axis]) * strides[axis] - pads[axis]
        steps = steps.reshape([-1, 1] if axis == 0 else [1, -1])
        steps = steps + (dynograd.arange(kernel[axis]) * dilations[axis]).reshape(
            *([-1, 1] if axis == 0 else [1, -1]), 1, 1
        )
        grid.append((2 * (steps + shifts[:, :, :, axis]) + 1) / sizes[axis] - 1)
    places = dynograd.stack(grid, -1).reshape(n * offset_group, taps * outs[0], outs[1], 2)
    samples = functional.grid_sample(x.reshape(n * offset_group, -1, *sizes), places, align_corners=False)
    samples = samples.reshape(n, offset_group, -1, taps, *outs)
    if mask is not None:
        samples = samples * mask.reshape(n, offset_group, 1, taps, *outs)
    columns = samples.reshape(n, group, channels // group * taps, -1)
    y = (w.reshape(group, filters // group, -1) @ columns).reshape(n, filters, *outs)
    return y if b is None else y + b.reshape(-1, 1, 1)
