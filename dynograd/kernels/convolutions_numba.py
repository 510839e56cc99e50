"""Numba kernels of depthwise convolution: each output channel reads one input channel.

Everything has three spatial dimensions and is C-contiguous; `geometry` is stride, padding and dilation of each. One padded
plane at a time lies in cache. At stride 1 the whole plane is one long run per kernel tap: the places between the end of an
output line and the end of a padded line are computed too, and dropped.
"""

import numpy as np

from dynograd.kernels.compiling_numba import compiled

__all__ = ["depthwise_backward_input", "depthwise_backward_weight", "depthwise_forward"]


@compiled
def depthwise_forward(x, weight, out, geometry):
    """out (N, CO, D', H', W'): output channel o reads input channel o // (CO / C) through weight (CO, kd, kh, kw)."""
    lines, pitch, length, step_line, step = _runs(x, out, geometry)
    plane, sums = _room(x, geometry), np.empty(out.shape[3] * pitch, x.dtype)
    share = out.shape[1] // x.shape[1]
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            _fill(plane, x, n, c, geometry)
            for o in range(c * share, (c + 1) * share):
                for od in range(out.shape[2]):
                    sums[:] = 0
                    for kd in range(weight.shape[1]):
                        for kh in range(weight.shape[2]):
                            for kw in range(weight.shape[3]):
                                begin = _begin(x, geometry, od, kd, kh, kw)
                                tap = weight[o, kd, kh, kw]
                                for line in range(lines):
                                    _add(sums, line * pitch, plane, begin + line * step_line, step, length, tap)
                    for oh in range(out.shape[3]):
                        target = out[n, o, od, oh]
                        for j in range(target.size):
                            target[j] = sums[np.uint64(oh * pitch + j)]


@compiled
def depthwise_backward_input(g, weight, gx, geometry):
    """Gradient of the input of `depthwise_forward` into `gx`."""
    lines, pitch, length, step_line, step = _runs(gx, g, geometry)
    plane, outer = _room(gx, geometry), np.zeros(g.shape[3] * pitch, g.dtype)
    share = g.shape[1] // gx.shape[1]
    for n in range(gx.shape[0]):
        for c in range(gx.shape[1]):
            plane[:] = 0
            for o in range(c * share, (c + 1) * share):
                for od in range(g.shape[2]):
                    _lay_out(outer, g, n, o, od, pitch)
                    for kd in range(weight.shape[1]):
                        for kh in range(weight.shape[2]):
                            for kw in range(weight.shape[3]):
                                begin = _begin(gx, geometry, od, kd, kh, kw)
                                tap = weight[o, kd, kh, kw]
                                for line in range(lines):
                                    _spread(plane, begin + line * step_line, step, outer, line * pitch, length, tap)
            _take(plane, gx, n, c, geometry)


@compiled
def depthwise_backward_weight(x, g, gw, geometry):
    """Gradient of the weight of `depthwise_forward` into `gw`, zero on entry."""
    lines, pitch, length, step_line, step = _runs(x, g, geometry)
    plane, outer = _room(x, geometry), np.zeros(g.shape[3] * pitch, g.dtype)
    share = g.shape[1] // x.shape[1]
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            _fill(plane, x, n, c, geometry)
            for o in range(c * share, (c + 1) * share):
                for od in range(g.shape[2]):
                    _lay_out(outer, g, n, o, od, pitch)
                    for kd in range(gw.shape[1]):
                        for kh in range(gw.shape[2]):
                            for kw in range(gw.shape[3]):
                                begin = _begin(x, geometry, od, kd, kh, kw)
                                for line in range(lines):
                                    gw[o, kd, kh, kw] += _dot(
                                        outer, line * pitch, plane, begin + line * step_line, step, length
                                    )


@compiled
def _runs(x, out, geometry):
    """Runs per output plane, distance of output lines, length of a run, and the input's steps from run to run and inside."""
    height, width = out.shape[3], out.shape[4]
    padded = x.shape[4] + 2 * geometry[5]
    if geometry[1] == 1 and geometry[2] == 1:
        return 1, padded, (height - 1) * padded + width, 0, 1
    return height, width, width, geometry[1] * padded, geometry[2]


@compiled
def _room(x, geometry):
    """A zero padded plane of one channel."""
    sizes = x.shape[2] + 2 * geometry[3], x.shape[3] + 2 * geometry[4], x.shape[4] + 2 * geometry[5]
    return np.zeros(sizes[0] * sizes[1] * sizes[2], x.dtype)


@compiled
def _begin(x, geometry, od, kd, kh, kw):
    """Where a kernel tap reads the padded plane for the first output of slice `od`."""
    height, width = x.shape[3] + 2 * geometry[4], x.shape[4] + 2 * geometry[5]
    return ((od * geometry[0] + kd * geometry[6]) * height + kh * geometry[7]) * width + kw * geometry[8]


@compiled
def _fill(plane, x, n, c, geometry):
    height, width = x.shape[3] + 2 * geometry[4], x.shape[4] + 2 * geometry[5]
    for d in range(x.shape[2]):
        for h in range(x.shape[3]):
            line = x[n, c, d, h]
            begin = ((d + geometry[3]) * height + h + geometry[4]) * width + geometry[5]
            for j in range(line.size):
                plane[np.uint64(begin + j)] = line[j]


@compiled
def _take(plane, x, n, c, geometry):
    height, width = x.shape[3] + 2 * geometry[4], x.shape[4] + 2 * geometry[5]
    for d in range(x.shape[2]):
        for h in range(x.shape[3]):
            line = x[n, c, d, h]
            begin = ((d + geometry[3]) * height + h + geometry[4]) * width + geometry[5]
            for j in range(line.size):
                line[j] = plane[np.uint64(begin + j)]


@compiled
def _lay_out(outer, g, n, o, od, pitch):
    for oh in range(g.shape[3]):
        line = g[n, o, od, oh]
        for j in range(line.size):
            outer[np.uint64(oh * pitch + j)] = line[j]


# Unsigned indices: a signed one could be negative for all Numba knows, and the check for that blocks vectorising.
@compiled
def _add(target, at, source, begin, step, count, factor):
    if step == 1:
        for j in range(count):
            target[np.uint64(at + j)] += factor * source[np.uint64(begin + j)]
    else:
        for j in range(count):
            target[np.uint64(at + j)] += factor * source[np.uint64(begin + j * step)]


@compiled
def _spread(target, begin, step, source, at, count, factor):
    if step == 1:
        for j in range(count):
            target[np.uint64(begin + j)] += factor * source[np.uint64(at + j)]
    else:
        for j in range(count):
            target[np.uint64(begin + j * step)] += factor * source[np.uint64(at + j)]


@compiled
def _dot(left, at, right, begin, step, count):
    total = left[0] * 0
    if step == 1:
        for j in range(count):
            total += left[np.uint64(at + j)] * right[np.uint64(begin + j)]
    else:
        for j in range(count):
            total += left[np.uint64(at + j)] * right[np.uint64(begin + j * step)]
    return total
