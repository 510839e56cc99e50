"""Convolution over 1, 2 or 3 spatial dimensions and its two gradients, on NumPy arrays.

x (N, C, *sizes), weight (CO, C / groups, *kernel); stride, padding and dilation hold one integer per spatial dimension.
float32 and float64 run in compiled register tiles, over places (`convolutions_numba`) or over output channels
(`convolutions_points_numba`: channels_last arrays, and weight gradients); half types are computed in float32, everything else
goes through patches laid out as columns (`convolutions_columns`). Where x or the weight is channels-last, the result is too. A kernel
of one place, and one as large as its input, both without padding, are matrix products.

Transposed convolution of x is `conv_input_gradient(x, weight, bias, output_shape, ...)`: any output_padding is just another
output_shape. Its gradients are `conv_forward(g, weight, None, ...)` and `conv_weight_gradient(g, x, weight_shape, ...)`.
"""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

from dynograd.arrays import buffers
from dynograd.kernels.build import threads
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.launches import data_address
from dynograd.kernels.conv import convolutions_columns as columns
from dynograd.kernels.conv import convolutions_plans as plans
from dynograd.kernels.conv import convolutions_point_plans as points
from dynograd.kernels.conv.convolutions_weight_plans import weight_plan
from dynograd.kernels.matmul.matmuls_cpu import linear_forward, matmul_forward, ordered_product

# Channels from which on row-major images are turned for the tiles over channels: those over places do not stay in the
# first-level cache (64 channels of 56 x 56: 8 %, 512 of 7 x 7: 10 %; at 32 of 16 x 16 they win by 10 %).
DEEP = 64

# Channels from which on a 1x1 kernel with a bias is a matrix product, to which the bias is added in a pass of its own: tiles begin with it
# (32 to 64 channels of 56 x 56: 0.65 ms against 0.88; 64 to 64: equal; 128 to 128 of 28 x 28: 1.44 against 1.26).
BIAS_PAYS = 64

# Orders of dims with the channels last, and back.
_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
CHANNELS_BACK = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


def conv_forward(x, weight, bias, stride, padding, dilation, groups):
    """Sum over channels and kernel of weight * x, plus a bias (CO,) or None: (N, CO, *sizes')."""
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    sizes = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in sizes]
    shape = (x.shape[0], weight.shape[0], *sizes)
    kind = x.dtype
    if kind.itemsize == 2:
        x, weight = x.astype(np.float32), weight.astype(np.float32)
    if x.dtype.char not in "fd" or not x.size or not weight.size or not prod(shape):
        return _with_bias(columns.conv_forward(x, weight, stride, padding, dilation, groups), bias).astype(
            kind, copy=False
        )
    whole = is_whole(x.shape, weight.shape, padding, groups) and x.flags.c_contiguous and weight.flags.c_contiguous
    if whole and not batch_invariant():  # bits would depend on how x lies in memory
        bias = None if bias is None else bias.astype(x.dtype, copy=False)
        return linear_forward(x.reshape(len(x), -1), _as_matrix(weight), bias).reshape(shape).astype(kind, copy=False)
    last = is_channels_last(x) or is_channels_last(weight)
    if is_pointwise(weight.shape, padding, groups) and (bias is None or last or x.shape[1] >= BIAS_PAYS):
        x = _read_by_places(x, shape, stride)
        return _pointwise(x, weight.reshape(weight.shape[:2]), bias, shape, last).astype(kind, copy=False)
    out = _empty(shape, x.dtype, last)
    if _by_points(x, weight, shape[1], groups, x.shape[1] >= DEEP and max(stride) == 1):
        windows = _windows(weight.shape[2:], stride, padding, dilation)
        plan = points.forward_points(
            *_five(x), *_five(out), *windows, *_point_tiles(x.dtype), threads.get_num_threads()
        )
        _correlate_points(plan, x, weight, bias, out)
        return out.astype(kind, copy=False)
    plan = plans.forward_plan(
        *_five(x), *_five(out), *_windows(weight.shape[2:], stride, padding, dilation), groups, *_tiles(x.dtype)
    )
    _correlate(plan, x, weight, bias, out, groups, weight.shape[0] // groups, weight.shape[1])
    return out.astype(kind, copy=False)


def conv_input_gradient(g, weight, bias, input_shape, stride, padding, dilation, groups):
    """Gradient of x of shape `input_shape`, plus a bias (C,) or None; input places that no kernel position touches get 0."""
    kind = g.dtype
    if kind.itemsize == 2:
        g, weight = g.astype(np.float32), weight.astype(np.float32)
    if g.dtype.char not in "fd" or not g.size or not weight.size or not prod(input_shape):
        gradient = columns.conv_input_gradient(g, weight, input_shape, stride, padding, dilation, groups)
        return _with_bias(gradient, bias).astype(kind, copy=False)
    if is_whole(input_shape, weight.shape, padding, groups) and weight.flags.c_contiguous:
        gradient = matmul_forward(_as_matrix(g), _as_matrix(weight)).reshape(input_shape)
        return _with_bias(gradient, bias).astype(kind, copy=False)
    last = is_channels_last(g) or is_channels_last(weight)
    if is_pointwise(weight.shape, padding, groups) and max(stride) == 1 and g.shape[2:] == tuple(input_shape[2:]):
        if bias is None or last or g.shape[1] >= BIAS_PAYS:
            weight = weight.reshape(weight.shape[:2]).T
            return _pointwise(g, weight, bias, tuple(input_shape), last).astype(kind, copy=False)
    out = _empty(input_shape, g.dtype, last)
    if _by_points(g, weight, input_shape[1], groups, g.shape[1] >= DEEP and max(stride) == 1):
        windows = _windows(weight.shape[2:], stride, padding, dilation)
        plan = points.backward_points(
            *_five(g), *_five(out), *windows, *_point_tiles(g.dtype), threads.get_num_threads()
        )
        _correlate_points(plan, g, weight, bias, out, back=True)
        return out.astype(kind, copy=False)
    plan = plans.backward_plan(
        *_five(g), *_five(out), *_windows(weight.shape[2:], stride, padding, dilation), groups, *_tiles(g.dtype)
    )
    _correlate(plan, g, weight, bias, out, groups, weight.shape[1], weight.shape[0] // groups, back=True)
    return out.astype(kind, copy=False)


def conv_weight_gradient(x, g, weight_shape, stride, padding, dilation, groups):
    """Gradient of the weight of shape `weight_shape`."""
    kind = x.dtype
    if kind.itemsize == 2:
        x, g = x.astype(np.float32), g.astype(np.float32)
    if x.dtype.char not in "fd" or not x.size or not g.size or not prod(weight_shape):
        return columns.conv_weight_gradient(x, g, weight_shape, stride, padding, dilation, groups).astype(
            kind, copy=False
        )
    if is_whole(x.shape, weight_shape, padding, groups) and x.flags.c_contiguous:
        return matmul_forward(_as_matrix(g).T, _as_matrix(x)).reshape(weight_shape).astype(kind, copy=False)
    if is_pointwise(weight_shape, padding, groups):
        return (
            _pointwise_weight_gradient(_read_by_places(x, g.shape, stride), g)
            .reshape(weight_shape)
            .astype(kind, copy=False)
        )
    windows = _windows(weight_shape[2:], stride, padding, dilation)
    if _by_points(x, g, weight_shape[0], groups, prod(weight_shape[2:]) > 1 or max(stride) == 1):
        return _weight_gradient_by_points(x, g, weight_shape, windows).astype(kind, copy=False)
    compiled = _over_places()
    size, lanes, _ = _tiles(x.dtype)
    plan = weight_plan(*_five(x), *_five(g), *windows, groups, size, lanes, _widths()[2])
    partial = buffers.zeros((plan.partial,), x.dtype)
    laid = g
    if plan.lay_out:
        make = buffers.zeros if plan.loose else buffers.empty
        laid, work = make((plan.g_elements,), x.dtype), 2 * plan.g_elements
        compiled.planes(
            partial, data_address(laid), data_address(g), plan.pitch, plan.g_tables, count=plan.pieces, work=work
        )
    result = buffers.empty(tuple(weight_shape), x.dtype)
    _weight_gradient(compiled, plan, plan.tables, x, laid, partial, result)
    if plan.loose and not np.isfinite(np.add.reduce(result, axis=None)):
        partial.fill(0)
        _weight_gradient(compiled, plan, plan.strict_tables, x, laid, partial, result)
    return result.astype(kind, copy=False)


def is_whole(input_shape, weight_shape, padding, groups):
    """Whether the kernel covers the input, so that the result has one place: a linear layer of all channels and places."""
    return (
        groups == 1
        and tuple(input_shape[2:]) == tuple(weight_shape[2:])
        and prod(weight_shape[2:]) > 1
        and not any(padding)
    )


def is_pointwise(weight_shape, padding, groups):
    """Whether a place of the result depends on one place of the input: products over the channels."""
    return groups == 1 and prod(weight_shape[2:]) == 1 and not any(padding)


def _read_by_places(x, shape, stride):
    """The places of x that a 1x1 kernel reads for a result of this shape."""
    return x[columns.places_read(shape[2:], stride)] if max(stride) > 1 else x


def _pointwise(x, weight, bias, shape, channels_last):
    """weight (CO, C) times every place of x (N, C, ...), in `shape`."""
    count, inner, outer, places = len(x), x.shape[1], len(weight), prod(x.shape[2:])
    x = x.reshape(count, inner, places)
    if channels_last:
        bias = None if bias is None else bias.astype(x.dtype, copy=False)
        out = ordered_product(x.swapaxes(1, 2), weight.T, bias)
        return out.reshape(shape[0], *shape[2:], shape[1]).transpose(CHANNELS_BACK[len(shape)])
    if (count - 1) * inner * outer > (inner + outer) * count * places:
        # Copying all images side by side, and their results back, is less than packing the weight for each image.
        out = ordered_product(weight, x.swapaxes(0, 1).reshape(inner, count * places))
        out = np.ascontiguousarray(out.reshape(outer, count, places).swapaxes(0, 1))
    else:
        out = ordered_product(weight, x)
    return _with_bias(out.reshape(shape), bias)


def _pointwise_weight_gradient(x, g):
    """(CO, C): the products of g and x at every place, added over places, then over images in order."""
    if is_channels_last(x) and is_channels_last(g):
        x, g = (array.transpose(_LAST[array.ndim]).reshape(-1, array.shape[1]) for array in (x, g))
        return ordered_product(g.T, x)
    outer, inner = g.reshape(*g.shape[:2], -1), x.reshape(*x.shape[:2], -1).swapaxes(1, 2)
    if len(x) * x.shape[1] * g.shape[1] <= x.size + g.size:  # the products take no more memory than the images
        return np.add.reduce(ordered_product(outer, inner), axis=0)
    total = ordered_product(outer[0], inner[0])
    for image in range(1, len(x)):
        total += ordered_product(outer[image], inner[image])
    return total


def _as_matrix(array):
    return array.reshape(array.shape[0], prod(array.shape[1:]))


def _weight_gradient(compiled, plan, tables, x, laid, partial, result):
    work = plan.work >> 3
    compiled.correlate_weights(partial, data_address(x), data_address(laid), 0, tables, count=plan.items, work=work)
    compiled.add_partials(partial, result.reshape(-1), plan.sizes, count=result.shape[0], work=partial.size)


def _by_points(x, other, outer, groups, pays):
    """Whether the tiles over output channels compute so many of them from x; `other` is the weight, or the gradient of the result.

    They are made for channels_last arrays; row-major ones are turned on the way, where that `pays`.
    """
    if groups != 1 or outer < _point_tiles(x.dtype)[1]:
        return False
    last = is_channels_last(x), is_channels_last(other)
    return (pays or any(last)) and (last[0] or x.flags.c_contiguous) and (last[1] or other.flags.c_contiguous)


def _correlate_points(plan, x, weight, bias, out, back=False):
    compiled = _over_channels()
    packed = buffers.empty((plan.weights,), x.dtype)
    flat, (outer_step, inner_step, tap_step) = _flat_weight(weight)
    steps = (inner_step, outer_step, tap_step) if back else (outer_step, inner_step, tap_step)
    count = len(plan.blocks)
    compiled.pack_point_weights(
        flat, packed, steps, x.shape[1], plan.phases, plan.taps, plan.blocks, count=count, work=2 * plan.weights
    )
    bias = np.zeros(out.shape[1], x.dtype) if bias is None else np.ascontiguousarray(bias, x.dtype)
    compiled.correlate_points(
        bias,
        data_address(x),
        data_address(packed),
        data_address(out),
        plan.tables,
        count=plan.items,
        work=plan.work >> 3,
    )


def _weight_gradient_by_points(x, g, weight_shape, windows):
    compiled = _over_channels()
    plan = points.weight_points(*_five(x), *_five(g), *windows, *_point_tiles(x.dtype))
    partial, result = buffers.empty((plan.partial,), x.dtype), buffers.empty(tuple(weight_shape), x.dtype)
    compiled.correlate_weight_points(
        partial, data_address(x), data_address(g), 0, plan.tables, count=plan.items, work=plan.work >> 3
    )
    compiled.add_point_partials(
        partial, result.reshape(-1), plan.rows, plan.blocks, plan.shares, count=len(plan.blocks), work=partial.size
    )
    return result


def _correlate(plan, x, weight, bias, out, groups, outer, inner, back=False):
    compiled = _over_places()
    packed = buffers.empty((plan.weights,), x.dtype)
    flat, steps = _flat_weight(weight)
    group_step = weight.shape[0] // groups * steps[0]
    steps = (group_step, steps[1], steps[0], steps[2]) if back else (group_step, *steps)
    compiled.pack_weights(
        flat, packed, steps, groups, outer, inner, plan.phases, plan.taps, plan.rows,
        count=groups * len(plan.rows), work=2 * plan.weights,
    )  # fmt: skip
    bias = np.zeros(groups * outer, x.dtype) if bias is None else np.ascontiguousarray(bias, x.dtype)
    compiled.correlate(
        bias,
        data_address(x),
        data_address(packed),
        data_address(out),
        plan.tables,
        count=plan.items,
        work=plan.work >> 3,
    )


def _flat_weight(weight):
    """The weight in its order of memory, and how far apart output channels, input channels and taps are."""
    channels, taps = weight.shape[1], prod(weight.shape[2:])
    if is_channels_last(weight):
        return weight.transpose(_LAST[weight.ndim]).reshape(-1), (taps * channels, 1, channels)
    return np.ascontiguousarray(weight).reshape(-1), (taps * channels, taps, 1)


def _tiles(kind):
    """Bytes of an element, elements of a vector; tiles and threads: what plans depend on besides shapes."""
    width, heights, _ = _widths()
    return kind.itemsize, width // kind.itemsize, (heights, threads.get_num_threads())


def _point_tiles(kind):
    """Bytes of an element, elements of a vector, places of a tile."""
    width, places = _point_widths()
    return kind.itemsize, width // kind.itemsize, places


# What is imported on the first use, and looked up once: small pictures are convolved in tens of microseconds.


@cache
def _over_places():
    from dynograd.kernels.conv import convolutions_numba

    return convolutions_numba


@cache
def _over_channels():
    from dynograd.kernels.conv import convolutions_points_numba

    return convolutions_points_numba


@cache
def _widths():
    """(bytes of a vector, heights of the tiles of products, tiles of dot products)."""
    from dynograd.kernels.tiles import tiles_numba

    return tiles_numba.BYTES, tuple(tiles_numba.PRODUCT_TILES.items()), tuple(tiles_numba.DOT_TILES)


@cache
def _point_widths():
    """(bytes of a vector, places of a tile)."""
    from dynograd.kernels.tiles import point_tiles_numba

    return point_tiles_numba.WIDTH, point_tiles_numba.POINTS


def _windows(kernel, stride, padding, dilation):
    ones = (1,) * (3 - len(kernel))
    zeros = (0,) * (3 - len(kernel))
    return (*ones, *kernel), (*ones, *stride), (*zeros, *padding), (*ones, *dilation)


def _five(array):
    """Shape and strides with three spatial dimensions."""
    missing = 5 - array.ndim
    shape, strides = array.shape, array.strides
    return (*shape[:2], *(1,) * missing, *shape[2:]), (*strides[:2], *(strides[1],) * missing, *strides[2:])


def is_channels_last(array):
    """Whether memory holds the channels of a place side by side, and is not row-major as well."""
    if array.ndim < 4 or array.flags.c_contiguous:
        return False
    return array.transpose(_LAST[array.ndim]).flags.c_contiguous


def _empty(shape, kind, channels_last):
    if channels_last:
        return buffers.empty((shape[0], *shape[2:], shape[1]), kind).transpose(CHANNELS_BACK[len(shape)])
    return buffers.empty(tuple(shape), kind)


def _with_bias(out, bias):
    if bias is not None:
        out += bias.reshape((-1, *(1,) * (out.ndim - 2)))
    return out
