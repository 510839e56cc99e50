"""Convolution of dtypes that have no compiled tiles (complex, integers): patches as columns, multiplied with the weight by NumPy.

A cache-sized block of columns at a time; 1x1 kernels need none. See `convolutions_cpu` for the arguments. Nothing here needs
Numba, and empty arrays go through here.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

# Elements of a block of columns: 1 MB of float32, the second-level cache of one core.
BLOCK = 1 << 18


def conv_forward(x, weight, stride, padding, dilation, groups):
    """Sum over channels and kernel of weight * x, without bias: (N, CO, *sizes')."""
    job = _Job(x.shape, weight.shape, stride, padding, dilation, groups)
    kind, result = x.dtype, np.empty(job.out_shape, _computing(x.dtype))
    x, weight = _spread(x, job.x_shape), _spread(weight, job.weight_shape)
    if not x.size or not weight.size or not result.size:
        result[...] = 0
    elif job.is_pointwise:
        np.matmul(job.by_group(weight), job.points(x[job.places]), out=job.points(result))
    else:
        _forward_by_columns(job, x, job.by_group(weight), result)
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
    elif mirrored := job.mirrored():
        _forward_by_columns(mirrored, g, job.mirror(weight), result)
    else:
        _input_by_columns(job, g, job.by_group(weight).swapaxes(1, 2), result)
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
    else:
        _weight_by_columns(job, x, g, job.by_group(result))
    return job.narrow(result).astype(kind, copy=False)


class _Job:
    """Sizes of one convolution, spread to three spatial dimensions with ones in front."""

    def __init__(self, x_shape, weight_shape, stride, padding, dilation, groups, out_shape=None):
        missing = 5 - len(x_shape)
        self.narrow_dims = tuple(range(2, 2 + missing))
        self.stride, self.dilation = (1,) * missing + tuple(stride), (1,) * missing + tuple(dilation)
        self.padding = (0,) * missing + tuple(padding)
        self.x_shape, self.weight_shape, self.groups = _five(x_shape), _five(weight_shape), groups
        self.kernel, self.taps = self.weight_shape[2:], prod(self.weight_shape[2:])
        if out_shape is None:
            sizes = zip(self.x_shape[2:], self.kernel, self.stride, self.padding, self.dilation, strict=True)
            sizes = [(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in sizes]
            out_shape = (x_shape[0], weight_shape[0], *sizes[missing:])
        self.out_shape = _five(out_shape)
        self.is_pointwise = self.taps == 1 and not any(padding)

    @property
    def places(self):
        """Index of the input places that a 1x1 kernel reads."""
        return places_read(self.out_shape[2:], self.stride)

    def by_group(self, weight):
        """The weight as (groups, CO / groups, C / groups * taps), a view."""
        return weight.reshape(self.groups, self.weight_shape[0] // self.groups, -1)

    def points(self, images):
        """(N, groups, channels / groups, places); a view where memory allows."""
        return images.reshape(images.shape[0], self.groups, images.shape[1] // self.groups, -1)

    def narrow(self, array):
        """Without the dimensions of size one that were put in front."""
        return array.squeeze(self.narrow_dims)

    def mirrored(self):
        """The convolution of the output's gradient that gives the input's, or None: stride 1 only."""
        padding = tuple(d * (k - 1) - p for d, k, p in zip(self.dilation, self.kernel, self.padding, strict=True))
        if max(self.stride) > 1 or min(padding) < 0:
            return None
        spans = [
            size + 2 * p - d * (k - 1)
            for size, p, d, k in zip(self.x_shape[2:], self.padding, self.dilation, self.kernel, strict=True)
        ]
        if tuple(spans) != tuple(self.out_shape[2:]):  # an output_padding: the natural size is not the one asked for
            return None
        weight_shape = (self.x_shape[1], self.weight_shape[0] // self.groups, *self.kernel)
        return _Job(self.out_shape, weight_shape, self.stride, padding, self.dilation, self.groups, self.x_shape)

    def mirror(self, weight):
        """The weight of `mirrored`, by group: input and output channels exchanged, taps turned round."""
        by_tap = weight.reshape(self.groups, -1, self.weight_shape[1], self.taps)
        return np.ascontiguousarray(by_tap[..., ::-1].transpose(0, 2, 1, 3)).reshape(
            self.groups, self.weight_shape[1], -1
        )


class _Columns:
    """Blocks of patches as a (C * taps, places) matrix, filled from or added back to padded images.

    With stride 1 in the last two dimensions a line of places runs on through the padding to the next line, so that each tap
    is one long copy; the few places in between are of no use and are dropped (`lines` leaves them out).
    """

    def __init__(self, job, kind):
        self.job = job
        self.padded = tuple(size + 2 * p for size, p in zip(job.x_shape[2:], job.padding, strict=True))
        depth, height, width = job.out_shape[2:]
        self.pitch = self.padded[2] if job.stride[1:] == (1, 1) else width
        self.rows = job.x_shape[1] * job.taps
        room = max(1, BLOCK // (self.rows * self.pitch))
        self.step_h = min(height, room)
        self.step_d = min(depth, max(1, room // height))
        self.step_n = min(job.x_shape[0], max(1, room // (height * depth)))
        self.room = np.empty(self.rows * self.step_n * self.step_d * self.step_h * self.pitch, kind)
        self.images = None
        if any(job.padding):
            self.images = np.zeros((self.step_n, job.x_shape[1], *self.padded), kind)

    def blocks(self):
        """(images, slices, lines) ranges of output places, as `slice`s."""
        batch, _, depth, height, _ = self.job.out_shape
        for n in range(0, batch, self.step_n):
            for d in range(0, depth, self.step_d):
                for h in range(0, height, self.step_h):
                    yield (
                        slice(n, min(batch, n + self.step_n)),
                        slice(d, min(depth, d + self.step_d)),
                        slice(h, min(height, h + self.step_h)),
                    )

    def shape(self, block):
        """Images, slices and places along the lines of a block."""
        images, slices, lines = (part.stop - part.start for part in block)
        return images, slices, (lines - 1) * self.pitch + self.job.out_shape[4]

    def matrix(self, block):
        """Room for a block's columns by group: (groups, C / groups * taps, places)."""
        places = prod(self.shape(block))
        return self.room[: self.rows * places].reshape(self.job.groups, -1, places)

    def lines(self, values, block):
        """(channels, images, slices, lines, W') view of (groups, channels / groups, places) without the places between."""
        images, slices, length = self.shape(block)
        spread = values.reshape(-1, images, slices, length)
        shape = (*spread.shape[:3], block[2].stop - block[2].start, self.job.out_shape[4])
        step = spread.strides[3]
        return as_strided(spread, shape, (*spread.strides[:3], self.pitch * step, step))

    def gather(self, g, block):
        """A block of an output-shaped array, by group: (groups, CO / groups, places), zero between the lines."""
        values = np.zeros((self.job.groups, self.job.out_shape[1] // self.job.groups, prod(self.shape(block))), g.dtype)
        self.lines(values, block)[...] = g[block[0], :, block[1], block[2]].swapaxes(0, 1)
        return values

    def pad(self, x, block):
        """The block's images with their padding."""
        if self.images is None:
            return x[block[0]]
        images = self.images[: block[0].stop - block[0].start]
        self.inside(images)[...] = x[block[0]]
        return images

    def inside(self, images):
        """The part of padded images that is not padding."""
        spans = zip(self.job.padding, self.job.x_shape[2:], strict=True)
        return images[(slice(None), slice(None), *(slice(p, p + size) for p, size in spans))]

    def fill(self, images, block):
        """The columns of a block of padded images, by group."""
        job, matrix = self.job, self.matrix(block)
        count, slices, length = self.shape(block)
        step_n, step_c, *steps = images.strides
        step_d, step_h, step_w = (step * s for step, s in zip(steps, job.stride, strict=True))
        if self.pitch == self.padded[2]:
            places, along = (count, slices, length), (step_n, step_d, step_w)
        else:
            places = (count, slices, block[2].stop - block[2].start, job.out_shape[4])
            along = (step_n, step_d, step_h, step_w)
        taps = (step * d for step, d in zip(steps, job.dilation, strict=True))
        begin = images[:, :, block[1].start * job.stride[0] :, block[2].start * job.stride[1] :]
        view = as_strided(begin, (job.x_shape[1], *job.kernel, *places), (step_c, *taps, *along))
        matrix.reshape(view.shape)[...] = view
        return matrix

    def add(self, matrix, images, block):
        """Add a block's columns to the places of its padded images that `fill` reads them from."""
        job, values = self.job, self.lines(matrix, block)
        values = values.reshape(job.x_shape[1], job.taps, *values.shape[1:]).swapaxes(0, 2)
        starts = (block[1].start, block[2].start, 0)
        for tap, steps in enumerate(np.ndindex(job.kernel)):
            place = [slice(None), slice(None)]
            for start, count, s, step, d in zip(starts, values.shape[3:], job.stride, steps, job.dilation, strict=True):
                first = start * s + step * d
                place.append(slice(first, first + (count - 1) * s + 1, s))
            images[tuple(place)] += values[:, tap]


def _forward_by_columns(job, x, weight, result):
    columns = _Columns(job, x.dtype)
    for block in columns.blocks():
        product = np.matmul(weight, columns.fill(columns.pad(x, block), block))
        result[block[0], :, block[1], block[2]] = columns.lines(product, block).swapaxes(0, 1)


def _input_by_columns(job, g, weight, result):
    columns = _Columns(job, g.dtype)
    total = result if columns.images is None else np.zeros((*job.x_shape[:2], *columns.padded), g.dtype)
    for block in columns.blocks():
        matrix = np.matmul(weight, columns.gather(g, block), out=columns.matrix(block))
        columns.add(matrix, total[block[0]], block)
    if total is not result:
        result[...] = columns.inside(total)


def _weight_by_columns(job, x, g, result):
    columns = _Columns(job, x.dtype)
    for block in columns.blocks():
        outer = columns.gather(g, block)
        result += np.matmul(outer, columns.fill(columns.pad(x, block), block).swapaxes(1, 2))


def places_read(sizes, stride):
    """Index of the places of images that a 1x1 kernel reads for results of these sizes."""
    return (slice(None), slice(None), *(slice(0, size * step, step) for size, step in zip(sizes, stride, strict=True)))


def _five(shape):
    return (*shape[:2], *(1,) * (5 - len(shape)), *shape[2:])


def _spread(array, shape):
    return np.ascontiguousarray(array, _computing(array.dtype)).reshape(shape)


def _computing(kind):
    return np.dtype(np.float32) if kind.itemsize == 2 else kind
