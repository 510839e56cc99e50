"""Convolution over 1, 2 or 3 spatial dimensions and its two gradients, on NumPy arrays.

x (N, C, *sizes), weight (CO, C / groups, *kernel); stride, padding and dilation hold one integer per spatial dimension.
Patches are laid out as columns, a cache-sized block at a time, and multiplied with the weight; 1x1 kernels need no columns,
depthwise ones no product. Half types are computed in float32.

Transposed convolution of x is `conv_input_gradient(x, weight, output_shape, ...)`: any output_padding is just another
output_shape. Its gradients are `conv_forward(g, weight, ...)` and `conv_weight_gradient(g, x, weight_shape, ...)`.
"""

from __future__ import annotations

from math import prod

import numpy as np

__all__ = ["conv_forward", "conv_input_gradient", "conv_weight_gradient"]

# Elements of a block of columns: 1 MB of float32, the second-level cache of one core.
BLOCK = 1 << 18
# Up to this many outputs per input channel loops beat a product whose inner size is only the kernel.
DEPTHWISE_SHARE = 4


def conv_forward(x, weight, stride, padding, dilation, groups):
    """Sum over channels and kernel of weight * x, without bias: (N, CO, *sizes')."""
    job = _Job(x.shape, weight.shape, stride, padding, dilation, groups)
    kind, result = x.dtype, np.empty(job.out_shape, _computing(x.dtype))
    x, weight = _spread(x, job.x_shape), _spread(weight, job.weight_shape)
    if not x.size or not weight.size or not result.size:
        result[...] = 0
    elif job.is_pointwise:
        np.matmul(job.by_group(weight), job.points(x[job.places]), out=job.points(result))
    elif job.is_depthwise:
        from dynograd.kernels.convolutions_numba import depthwise_forward

        depthwise_forward(x, weight[:, 0], result, job.geometry)
    else:
        _forward_by_columns(job, x, weight, result)
    return job.narrow(result).astype(kind, copy=False)


def conv_input_gradient(g, weight, input_shape, stride, padding, dilation, groups):
    """Gradient of x of shape `input_shape`; input places that no kernel position touches get 0."""
    job = _Job(input_shape, weight.shape, stride, padding, dilation, groups, g.shape)
    kind, result = g.dtype, np.zeros(job.x_shape, _computing(g.dtype))
    g, weight = _spread(g, job.out_shape), _spread(weight, job.weight_shape)
    if not g.size or not weight.size or not result.size:
        pass
    elif job.is_pointwise:
        points = np.matmul(job.by_group(weight).swapaxes(1, 2), job.points(g))
        result[job.places] = points.reshape(*job.x_shape[:2], *job.out_shape[2:])
    elif job.is_depthwise:
        from dynograd.kernels.convolutions_numba import depthwise_backward_input

        depthwise_backward_input(g, weight[:, 0], result, job.geometry)
    else:
        _input_by_columns(job, g, weight, result)
    return job.narrow(result).astype(kind, copy=False)


def conv_weight_gradient(x, g, weight_shape, stride, padding, dilation, groups):
    """Gradient of the weight of shape `weight_shape`."""
    job = _Job(x.shape, weight_shape, stride, padding, dilation, groups, g.shape)
    kind, result = x.dtype, np.zeros(job.weight_shape, _computing(x.dtype))
    x, g = _spread(x, job.x_shape), _spread(g, job.out_shape)
    if not x.size or not g.size or not result.size:
        pass
    elif job.is_pointwise:
        products = np.matmul(job.points(g), job.points(x[job.places]).swapaxes(2, 3))
        np.sum(products, axis=0, out=job.by_group(result))
    elif job.is_depthwise:
        from dynograd.kernels.convolutions_numba import depthwise_backward_weight

        depthwise_backward_weight(x, g, result[:, 0], job.geometry)
    else:
        _weight_by_columns(job, x, g, job.by_group(result))
    return job.narrow(result).astype(kind, copy=False)


class _Job:
    """Shapes of one convolution, spread to three spatial dimensions with ones in front."""

    def __init__(self, x_shape, weight_shape, stride, padding, dilation, groups, out_shape=None):
        missing = 5 - len(x_shape)
        self.narrow_dims = tuple(range(2, 2 + missing))
        stride, dilation = (1,) * missing + tuple(stride), (1,) * missing + tuple(dilation)
        padding = (0,) * missing + tuple(padding)
        self.x_shape, self.weight_shape = _five(x_shape), _five(weight_shape)
        if out_shape is None:
            sizes = zip(self.x_shape[2:], self.weight_shape[2:], stride, padding, dilation, strict=True)
            sizes = [(size + 2 * p - d * (kernel - 1) - 1) // s + 1 for size, kernel, s, p, d in sizes]
            out_shape = (x_shape[0], weight_shape[0], *sizes)
        self.out_shape = _five(out_shape)
        self.geometry = tuple(map(int, stride + padding + dilation))
        self.groups = groups
        self.taps = prod(self.weight_shape[2:])
        self.is_pointwise = self.taps == 1 and not any(padding)
        self.is_depthwise = groups > 1 and weight_shape[1] == 1 and weight_shape[0] <= groups * DEPTHWISE_SHARE
        spans = (slice(0, size * step, step) for size, step in zip(self.out_shape[2:], stride, strict=True))
        self.places = (slice(None), slice(None), *spans)

    def by_group(self, weight):
        """The weight as (groups, CO / groups, C / groups * taps), a view."""
        return weight.reshape(self.groups, self.weight_shape[0] // self.groups, -1)

    def points(self, images):
        """(N, groups, channels / groups, places); a view where memory allows."""
        return images.reshape(images.shape[0], self.groups, images.shape[1] // self.groups, -1)

    def narrow(self, array):
        """Without the dimensions of size one that were put in front."""
        return array.squeeze(self.narrow_dims)

    def blocks(self):
        """(first image, images, first row, rows) of blocks whose columns fit BLOCK; rows run over D' * H'."""
        images, rows, width = self.out_shape[0], self.out_shape[2] * self.out_shape[3], self.out_shape[4]
        per_row = self.x_shape[1] * self.taps * width
        step_images = max(1, BLOCK // (per_row * rows))
        step_rows = min(rows, max(1, BLOCK // per_row))
        for image in range(0, images, step_images):
            for row in range(0, rows, step_rows):
                yield image, min(step_images, images - image), row, min(step_rows, rows - row)

    def column_blocks(self):
        """`blocks` with the arguments of the column kernels and room for the columns of each."""
        height, width = self.out_shape[3:]
        height_of_column = self.x_shape[1] * self.taps
        room = None
        for image, images, row, rows in self.blocks():
            count = images * rows * width
            if room is None:
                room = np.empty(height_of_column * count, self.kind)
            columns = room[: height_of_column * count].reshape(height_of_column, count)
            place = self.weight_shape[2:], (height, width), self.geometry, image, images, row, rows
            yield columns, columns.reshape(self.groups, -1, count), place, image, images, slice(
                row * width, (row + rows) * width
            )


def _forward_by_columns(job, x, weight, result):
    from dynograd.kernels.convolutions_numba import unfold_columns

    job.kind = x.dtype
    weight, out = job.by_group(weight), job.points(result)
    for columns, by_group, place, image, images, span in job.column_blocks():
        unfold_columns(x, columns, *place)
        if images == 1:
            np.matmul(weight, by_group, out=out[image, :, :, span])
        else:
            block = np.matmul(weight, by_group).reshape(*out.shape[1:3], images, -1)
            out[image : image + images] = block.transpose(2, 0, 1, 3)


def _input_by_columns(job, g, weight, result):
    from dynograd.kernels.convolutions_numba import fold_columns

    job.kind = g.dtype
    weight, g = job.by_group(weight).swapaxes(1, 2), job.points(g)
    for columns, by_group, place, image, images, span in job.column_blocks():
        np.matmul(weight, _together(g, image, images, span), out=by_group)
        fold_columns(columns, result, *place)


def _weight_by_columns(job, x, g, result):
    from dynograd.kernels.convolutions_numba import unfold_columns

    job.kind = x.dtype
    g = job.points(g)
    for columns, by_group, place, image, images, span in job.column_blocks():
        unfold_columns(x, columns, *place)
        result += np.matmul(_together(g, image, images, span), by_group.swapaxes(1, 2))


def _together(g, image, images, span):
    """(groups, CO / groups, places) of a block, places of all its images in a row."""
    if images == 1:
        return g[image, :, :, span]
    return g[image : image + images].transpose(1, 2, 0, 3).reshape(*g.shape[1:3], -1)


def _five(shape):
    return (*shape[:2], *(1,) * (5 - len(shape)), *shape[2:])


def _spread(array, shape):
    return np.ascontiguousarray(array, _computing(array.dtype)).reshape(shape)


def _computing(kind):
    return np.dtype(np.float32) if kind.itemsize == 2 else kind
