"""What convolutions make of arrays without values (device "meta"): the shapes of `convolutions_cpu`, and how they lie in memory."""

from __future__ import annotations

from dynograd.arrays import meta_arrays
from dynograd.kernels.conv.convolutions_cpu import CHANNELS_BACK, is_channels_last


def conv_forward(x, weight, bias, stride, padding, dilation, groups):
    """(N, CO, *sizes')."""
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    sizes = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in sizes]
    return _empty((x.shape[0], weight.shape[0], *sizes), x, weight)


def conv_input_gradient(g, weight, bias, input_shape, stride, padding, dilation, groups):
    """`input_shape`."""
    return _empty(tuple(input_shape), g, weight)


def conv_weight_gradient(x, g, weight_shape, stride, padding, dilation, groups):
    """`weight_shape`."""
    return meta_arrays.empty(tuple(weight_shape), x.dtype)


def _empty(shape, images, weight):
    if is_channels_last(images) or is_channels_last(weight):
        shape = shape[0], *shape[2:], shape[1]
        return meta_arrays.empty(shape, images.dtype).transpose(CHANNELS_BACK[len(shape)])
    return meta_arrays.empty(shape, images.dtype)
