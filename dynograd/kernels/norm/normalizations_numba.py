"""Numba kernels of batch norm on (N, C, L) and group norm on (N * groups, channels of a group * L), C-contiguous, one float type.

Statistics are taken piece by piece, mean first and then squared distances while the piece is in cache, and merged in float64: one
pass over memory, exact far from zero. Layer and RMS norm, and batch norm of (R, C), are row programs.
"""

import math

from dynograd.kernels.build.compiling_numba import chunked, compiled

_PIECE = 4096  # elements whose sum is taken in the arrays' own type


@compiled(inline=True)
def _sum(row):
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j]
    return total


@compiled(inline=True)
def _sum_of_squares(row, middle):
    total = row.dtype.type(0)
    for j in range(row.size):
        total += (row[j] - middle) ** 2
    return total


@compiled(inline=True)
def _sum_of_products(outer, row, middle):
    total = row.dtype.type(0)
    for j in range(row.size):
        total += outer[j] * (row[j] - middle)
    return total


@compiled
def _merged(row, count, mean, squares):
    """(count, mean, sum of squared distances) of the elements before and those of `row` (Chan, Golub and LeVeque, 1979)."""
    for begin in range(0, row.size, _PIECE):
        piece = row[begin : begin + _PIECE]
        size = piece.size
        middle = row.dtype.type(_sum(piece) / row.dtype.type(size))
        inner = float(_sum_of_squares(piece, middle))
        distance = middle - mean
        whole = count + size
        mean += distance * (size / whole)
        squares += inner + distance * distance * (count * (size / whole))
        count = whole
    return count, mean, squares


@compiled(inline=True)
def _affine(row, middle, scale, shift, result):
    for j in range(row.size):
        result[j] = (row[j] - middle) * scale + shift


@compiled(inline=True)
def _gradient(outer, row, middle, scale, shift, slope, result):
    for j in range(row.size):
        result[j] = scale * (outer[j] - shift - (row[j] - middle) * slope)


@chunked(noalias=True)
def batch_norm(x, weight, bias, eps, y, mean, variance, rstd, start, stop):
    """Normalises the channels start to stop by their own statistics, which are written too."""
    kind = x.dtype.type
    group = _PIECE // max(x.shape[2], 1) + 1
    for c in range(start, stop):
        count, middle, squares = 0.0, 0.0, 0.0
        for first in range(0, x.shape[0], group):
            last = min(first + group, x.shape[0])
            if group == 1:
                count, middle, squares = _merged(x[first, c], count, middle, squares)
                continue
            total, inner = 0.0, 0.0
            for n in range(first, last):
                total += _sum(x[n, c])
            size = float((last - first) * x.shape[2])
            own = kind(total / size)
            for n in range(first, last):
                inner += _sum_of_squares(x[n, c], own)
            distance = own - middle
            middle += distance * (size / (count + size))
            squares += inner + distance * distance * (count * (size / (count + size)))
            count += size
        mean[c] = kind(middle)
        variance[c] = kind(squares / max(count, 1.0))
        rstd[c] = kind(1 / math.sqrt(squares / max(count, 1.0) + eps))
        scale = rstd[c] * weight[c]
        for n in range(x.shape[0]):
            _affine(x[n, c], mean[c], scale, bias[c], y[n, c])


@chunked(noalias=True)
def channel_affine(x, scale, shift, y, start, stop):
    """x * scale + shift with numbers for each channel: an item is a channel of an example."""
    for item in range(start, stop):
        n, c = item // x.shape[1], item % x.shape[1]
        row, result, factor, summand = x[n, c], y[n, c], scale[c], shift[c]
        for j in range(row.size):
            result[j] = row[j] * factor + summand


@chunked(noalias=True)
def batch_norm_gradients(g, x, weight, mean, rstd, training, gx, gw, gb, start, stop):
    """Gradients of `batch_norm`; when not training the statistics are constants."""
    kind = x.dtype.type
    count = x.shape[0] * x.shape[2]
    for c in range(start, stop):
        total, along = 0.0, 0.0
        for n in range(x.shape[0]):
            outer, row = g[n, c], x[n, c]
            for begin in range(0, row.size, _PIECE):
                piece = outer[begin : begin + _PIECE]
                total += _sum(piece)
                along += _sum_of_products(piece, row[begin : begin + _PIECE], mean[c])
        gb[c], gw[c] = kind(total), kind(along * rstd[c])
        scale, shift, slope = weight[c] * rstd[c], kind(0), kind(0)
        if training:
            shift = kind(total / count)
            slope = kind(along / count * rstd[c] * rstd[c])
        for n in range(x.shape[0]):
            _gradient(g[n, c], x[n, c], mean[c], scale, shift, slope, gx[n, c])


@chunked(noalias=True)
def group_norm(x, places, weight, bias, eps, y, mean, rstd, start, stop):
    """Normalises the rows start to stop, each a group of channels of `places` elements; weight and bias are for all channels."""
    kind = x.dtype.type
    members = x.shape[1] // places
    groups = weight.size // members
    for r in range(start, stop):
        row, result = x[r], y[r]
        count, middle, squares = _merged(row, 0.0, 0.0, 0.0)
        mean[r] = kind(middle)
        rstd[r] = kind(1 / math.sqrt(squares / max(count, 1.0) + eps))
        first = r % groups * members
        for member in range(members):
            begin = member * places
            scale = rstd[r] * weight[first + member]
            _affine(row[begin : begin + places], mean[r], scale, bias[first + member], result[begin : begin + places])


@chunked(noalias=True)
def group_norm_gradients(g, x, places, weight, mean, rstd, gx, gw, gb, start, stop):
    """Gradients of `group_norm`; gw and gb (rows, channels of a group) are for each example."""
    kind = x.dtype.type
    members = x.shape[1] // places
    groups = weight.size // members
    for r in range(start, stop):
        outer, row, result = g[r], x[r], gx[r]
        first = r % groups * members
        total, along = 0.0, 0.0
        for member in range(members):
            begin = member * places
            whole, product = 0.0, 0.0
            for at in range(begin, begin + places, _PIECE):
                end = min(at + _PIECE, begin + places)
                whole += _sum(outer[at:end])
                product += _sum_of_products(outer[at:end], row[at:end], mean[r])
            gb[r, member], gw[r, member] = kind(whole), kind(product * rstd[r])
            total += whole * weight[first + member]
            along += product * weight[first + member]
        shift = kind(total / row.size * rstd[r])
        slope = kind(along / row.size * rstd[r] * rstd[r] * rstd[r])
        for member in range(members):
            begin = member * places
            _group_gradient(
                outer[begin : begin + places],
                row[begin : begin + places],
                mean[r],
                weight[first + member] * rstd[r],
                shift,
                slope,
                result[begin : begin + places],
            )


@compiled(inline=True)
def _group_gradient(outer, row, middle, scale, shift, slope, result):
    for j in range(row.size):
        result[j] = scale * outer[j] - shift - (row[j] - middle) * slope
