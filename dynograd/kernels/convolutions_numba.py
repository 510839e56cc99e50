"""Numba kernels under convolution: patches laid out as columns, their sum back into images, and depthwise loops.

Everything has three spatial dimensions (ones in front for fewer) and is C-contiguous. `geometry` is the 9 integers stride,
padding, dilation of each dimension. Lines are cut to their valid part first, so inner loops are plain copies and sums.
"""

from dynograd.kernels.math_numba import compiled

__all__ = [
    "depthwise_backward_input",
    "depthwise_backward_weight",
    "depthwise_forward",
    "fold_columns",
    "unfold_columns",
]


@compiled
def _valid(offset, stride, size, count):
    """First and one past the last output position j < count whose input j * stride + offset lies inside `size`."""
    first = 0 if offset >= 0 else (-offset + stride - 1) // stride
    last = -1 if offset >= size else (size - 1 - offset) // stride
    stop = min(last + 1, count)
    return min(first, count), max(stop, min(first, count))


@compiled
def unfold_columns(x, columns, kernel, sizes, geometry, image, images, row, rows):
    """Columns (C * taps, images * rows * W') of `images` images from `image` on, output rows `row` onwards of each."""
    stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, step_d, step_h, step_w = geometry
    _, channels, depth, height, width = x.shape
    size_h, size_w = sizes
    index = 0
    for c in range(channels):
        for kd in range(kernel[0]):
            for kh in range(kernel[1]):
                for kw in range(kernel[2]):
                    column = columns[index]
                    index += 1
                    offset = kw * step_w - pad_w
                    first, stop = _valid(offset, stride_w, width, size_w)
                    begin = first * stride_w + offset
                    start = 0
                    for n in range(image, image + images):
                        for r in range(row, row + rows):
                            d = (r // size_h) * stride_d - pad_d + kd * step_d
                            h = (r % size_h) * stride_h - pad_h + kh * step_h
                            if d < 0 or d >= depth or h < 0 or h >= height or first == stop:
                                column[start : start + size_w] = 0
                            else:
                                if first > 0:
                                    column[start : start + first] = 0
                                if stop < size_w:
                                    column[start + stop : start + size_w] = 0
                                target = column[start + first : start + stop]
                                line = x[n, c, d, h, begin:]
                                if stride_w == 1:
                                    for j in range(target.size):
                                        target[j] = line[j]
                                else:
                                    for j in range(target.size):
                                        target[j] = line[j * stride_w]
                            start += size_w


@compiled
def fold_columns(columns, x, kernel, sizes, geometry, image, images, row, rows):
    """Add columns into the image places that `unfold_columns` reads them from."""
    stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, step_d, step_h, step_w = geometry
    _, channels, depth, height, width = x.shape
    size_h, size_w = sizes
    index = 0
    for c in range(channels):
        for kd in range(kernel[0]):
            for kh in range(kernel[1]):
                for kw in range(kernel[2]):
                    column = columns[index]
                    index += 1
                    offset = kw * step_w - pad_w
                    first, stop = _valid(offset, stride_w, width, size_w)
                    begin = first * stride_w + offset
                    start = 0
                    for n in range(image, image + images):
                        for r in range(row, row + rows):
                            d = (r // size_h) * stride_d - pad_d + kd * step_d
                            h = (r % size_h) * stride_h - pad_h + kh * step_h
                            if 0 <= d < depth and 0 <= h < height and first < stop:
                                source = column[start + first : start + stop]
                                line = x[n, c, d, h, begin:]
                                if stride_w == 1:
                                    for j in range(source.size):
                                        line[j] += source[j]
                                else:
                                    for j in range(source.size):
                                        line[j * stride_w] += source[j]
                            start += size_w


@compiled
def depthwise_forward(x, weight, out, geometry):
    """out (N, CO, D', H', W'): output channel o reads input channel o // (CO / C); weight (CO, kd, kh, kw)."""
    stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, step_d, step_h, step_w = geometry
    _, channels, depth, height, width = x.shape
    images, outputs, size_d, size_h, size_w = out.shape
    share = outputs // channels
    for n in range(images):
        for o in range(outputs):
            for od in range(size_d):
                for oh in range(size_h):
                    result = out[n, o, od, oh]
                    result[:] = 0
                    for kd in range(weight.shape[1]):
                        d = od * stride_d - pad_d + kd * step_d
                        if d < 0 or d >= depth:
                            continue
                        for kh in range(weight.shape[2]):
                            h = oh * stride_h - pad_h + kh * step_h
                            if h < 0 or h >= height:
                                continue
                            for kw in range(weight.shape[3]):
                                offset = kw * step_w - pad_w
                                first, stop = _valid(offset, stride_w, width, size_w)
                                if first == stop:
                                    continue
                                target = result[first:stop]
                                line = x[n, o // share, d, h, first * stride_w + offset :]
                                tap = weight[o, kd, kh, kw]
                                if stride_w == 1:
                                    for j in range(target.size):
                                        target[j] += tap * line[j]
                                else:
                                    for j in range(target.size):
                                        target[j] += tap * line[j * stride_w]


@compiled
def depthwise_backward_input(g, weight, gx, geometry):
    """Gradient of the input of `depthwise_forward` into `gx`, zero on entry."""
    stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, step_d, step_h, step_w = geometry
    _, channels, depth, height, width = gx.shape
    images, outputs, size_d, size_h, size_w = g.shape
    share = outputs // channels
    for n in range(images):
        for o in range(outputs):
            for od in range(size_d):
                for oh in range(size_h):
                    outer = g[n, o, od, oh]
                    for kd in range(weight.shape[1]):
                        d = od * stride_d - pad_d + kd * step_d
                        if d < 0 or d >= depth:
                            continue
                        for kh in range(weight.shape[2]):
                            h = oh * stride_h - pad_h + kh * step_h
                            if h < 0 or h >= height:
                                continue
                            for kw in range(weight.shape[3]):
                                offset = kw * step_w - pad_w
                                first, stop = _valid(offset, stride_w, width, size_w)
                                if first == stop:
                                    continue
                                source = outer[first:stop]
                                line = gx[n, o // share, d, h, first * stride_w + offset :]
                                tap = weight[o, kd, kh, kw]
                                if stride_w == 1:
                                    for j in range(source.size):
                                        line[j] += tap * source[j]
                                else:
                                    for j in range(source.size):
                                        line[j * stride_w] += tap * source[j]


@compiled
def depthwise_backward_weight(x, g, gw, geometry):
    """Gradient of the weight of `depthwise_forward` into `gw`, zero on entry."""
    stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, step_d, step_h, step_w = geometry
    _, channels, depth, height, width = x.shape
    images, outputs, size_d, size_h, size_w = g.shape
    share = outputs // channels
    for n in range(images):
        for o in range(outputs):
            for od in range(size_d):
                for oh in range(size_h):
                    outer = g[n, o, od, oh]
                    for kd in range(gw.shape[1]):
                        d = od * stride_d - pad_d + kd * step_d
                        if d < 0 or d >= depth:
                            continue
                        for kh in range(gw.shape[2]):
                            h = oh * stride_h - pad_h + kh * step_h
                            if h < 0 or h >= height:
                                continue
                            for kw in range(gw.shape[3]):
                                offset = kw * step_w - pad_w
                                first, stop = _valid(offset, stride_w, width, size_w)
                                if first == stop:
                                    continue
                                source = outer[first:stop]
                                line = x[n, o // share, d, h, first * stride_w + offset :]
                                total = gw[o, kd, kh, kw]
                                if stride_w == 1:
                                    for j in range(source.size):
                                        total += source[j] * line[j]
                                else:
                                    for j in range(source.size):
                                        total += source[j] * line[j * stride_w]
                                gw[o, kd, kh, kw] = total
