"""Gradients of convolutions' weights on the GPU: sums over parts of the places, added in their order."""

from __future__ import annotations

import math

import numpy

from dynograd.arrays.cuda_arrays import empty, operations
from dynograd.kernels.build import precision
from dynograd.kernels.conv import convolutions_triton as device
from dynograd.kernels.conv.convolution_layouts_cuda import (
    Window,
    channels_last,
    five_dims,
    is_channels_last,
    moved,
    numbers_of,
    of_other_kinds,
    place_steps,
    power,
    processors,
    three,
    unit_of,
)
from dynograd.kernels.matmul import matmuls_cuda

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FEW_CHANNELS = 16  # as in `convolutions_cuda`
_float32, _float64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)


def conv_weight_gradient(x, g, weight_shape, stride, padding, dilation, groups):
    """Gradient of the weight of shape `weight_shape`."""
    if x.dtype.name not in _FLOATS:
        return of_other_kinds(
            lambda x, g: conv_weight_gradient(x, g, weight_shape, stride, padding, dilation, groups), x, g, None
        )
    shape = tuple(weight_shape)
    result = empty(shape, x.dtype, x.device_index)
    if not result.size:
        return result
    if math.prod(shape[2:]) == 1 and set(stride) == {1} and not any(padding) and groups == 1 and x.size and g.size:
        x, g = (channels_last(operand) for operand in (x, g))
        rows, operands = (moved(operand).reshape(-1, operand.shape[1]) for operand in (x, g))
        return matmuls_cuda.multiply(operands.T, rows, tf32="cudnn").reshape(shape)
    stride, padding, dilation = three(stride, 1), three(padding, 0), three(dilation, 1)
    kernel, out = three(shape[2:], 1), three(g.shape[2:], 1)
    window = Window(out, three(x.shape[2:], 1), kernel, tuple([-p for p in padding]), stride, dilation)
    if groups == x.shape[1] and shape[1] == 1:
        return _depthwise_weights(x, g, result, window)
    x, g = five_dims(channels_last(x)), five_dims(channels_last(g))
    outer, inner, taps, places = shape[0] // groups, shape[1], math.prod(kernel), x.shape[0] * math.prod(out)
    size, half = x.itemsize, x.itemsize == 2
    tf32 = x.dtype == _float32 and precision.allows_tf32("cudnn")
    flat = inner < _FEW_CHANNELS
    most = 128 if half else 64 if size == 4 else 32
    high, wide = power(outer, most), power(inner * (taps if flat else 1), min(most, 64))
    depth = 16 if size > 2 and not tf32 else 32 if flat or size > 2 else 64
    columns = -(-taps * inner // wide) if flat else taps * -(-inner // wide)
    tiles = -(-outer // high) * columns
    splits = max(1, min(2 * processors(x) // (tiles * groups), places // (8 * depth), 256))
    span = -(-places // (splits * depth)) * depth if places else depth
    splits = max(1, -(-places // span))
    parts = empty((splits, shape[0], taps, inner), _float64 if size == 8 else _float32, x.device_index)
    device.correlate_weights(
        (tiles, groups, splits), x, g, parts, places, inner, outer, span, *numbers_of(window), *place_steps(x), *place_steps(g), FLAT=flat,
        X_UNIT=1 if flat else unit_of(x, inner), G_UNIT=unit_of(g, outer), PRECISION="tf32" if tf32 else "ieee", BM=high, BN=wide,
        BK=depth, num_warps=8 if high * wide >= 8192 else 4, num_stages=3,
    )  # fmt: skip
    total = empty(parts.shape[1:], x.dtype, x.device_index)
    matmuls_cuda.add_parts(parts, total, None, 1)
    if taps == 1 or inner == 1:
        return total.reshape(shape)
    operations.copy_into(result.reshape(shape[0], inner, taps), total.transpose(0, 2, 1))
    return result


def _depthwise_weights(x, g, result, window):
    size = x.itemsize
    share = g.shape[1] // x.shape[1]
    last = is_channels_last(x) or is_channels_last(g)
    if last and share == 1:
        x, g = channels_last(x), channels_last(g)
    x, g = five_dims(x), five_dims(g)
    side_by_side = share == 1 and x.strides[1] == size and g.strides[1] == size
    channels, taps, places = g.shape[1], math.prod(window.taps), g.shape[0] * math.prod(window.out)
    wide = power(channels, 64) if side_by_side else 1
    high = 2048 // wide if side_by_side else 512
    blocks = -(-channels // wide)
    splits = max(1, min(4 * processors(x) // (taps * blocks), places // (4 * high), 256))
    span = -(-places // (splits * high)) * high if places else high
    splits = max(1, -(-places // span))
    parts = empty((splits, channels, taps), _float64 if size == 8 else _float32, x.device_index)
    device.correlate_depthwise_weights(
        (taps, blocks, splits), x, g, parts, places, channels, share, span, *numbers_of(window),
        *[step // size for step in x.strides], *[step // size for step in g.strides], LAST=side_by_side,
        UNIT=min(unit_of(x, channels), unit_of(g, channels)) if side_by_side else 1, BP=high, BC=wide,
        num_warps=4,
    )  # fmt: skip
    matmuls_cuda.add_parts(parts, result, None, 1)
    return result
