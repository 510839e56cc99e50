"""Numba kernels of reductions over segments of rows, on values (M, D): a part of the work is a group of whole segments.

A segment is first <= row < last; `groups` says which segments a part has, so that parts have about as many rows each.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.formula.math_numba import exp
from dynograd.kernels.rows.row_programs_numba import ordered, unordered

SUM, PROD, MAX, MIN = range(4)
_RUN = 4096  # elements that are added up in their own type; runs are added up in float64


@chunked(noalias=True)
def lay_out_groups(starts, ends, rows, groups, start, stop):
    """Writes where groups of segments begin that have about as many rows each, where the last one ends, and how many rows segments have;
    an empty segment counts as one. The only item is all of it."""
    total, work, segments = 0, 0, len(starts)
    for k in range(segments):
        length = max(min(ends[k], rows) - max(starts[k], 0), 0)
        total += length
        work += max(length, 1)
    count = len(groups) - 2
    for place in range(count + 1):
        groups[place] = segments
    groups[0], groups[count + 1] = 0, total
    place, done = 1, 0
    for k in range(segments):
        while place < count and done * count >= work * place:
            groups[place] = k
            place += 1
        done += max(min(ends[k], rows) - max(starts[k], 0), 1)


@chunked(noalias=True)
def clear_uncovered(groups, result, start, stop):
    """Writes zeros into rows of `result` where segments have fewer; the only item is all of it. `groups`: of `lay_out_groups`."""
    if groups[groups.size - 1] < result.shape[0]:
        result[:] = 0


@compiled
def _sum(values, first, last):
    total = 0.0
    for start in range(first, last, _RUN):
        part = type(values[0])(0)
        for row in range(start, min(start + _RUN, last)):
            part += values[row]
        total += part
    return total


@compiled
def _product(values, first, last):
    total = type(values[0])(1)
    for row in range(first, last):
        total *= values[row]
    return total


@compiled
def _largest(values, first, last):
    """The maximum, NaN where there is one, -inf of nothing."""
    best, odd = ordered(type(values[0])(-np.inf)), 0
    for row in range(first, last):
        value = values[row]
        key = ordered(value)
        best = key if key > best else best
        odd |= value != value
    return type(values[0])(np.nan) if odd else unordered(best)


@compiled
def _smallest(values, first, last):
    best, odd = ordered(type(values[0])(np.inf)), 0
    for row in range(first, last):
        value = values[row]
        key = ordered(value)
        best = key if key < best else best
        odd |= value != value
    return type(values[0])(np.nan) if odd else unordered(best)


@compiled
def _reduce_columns(values, first, last, kind, result):
    """`result[c]` of the columns of rows first to last."""
    if kind == SUM:
        result[:] = 0
        for row in range(first, last):
            own_row = values[row]
            for c in range(result.size):
                result[c] += own_row[c]
    elif kind == PROD:
        result[:] = 1
        for row in range(first, last):
            own_row = values[row]
            for c in range(result.size):
                result[c] *= own_row[c]
    elif kind == MAX:
        result[:] = -np.inf
        for row in range(first, last):
            own_row = values[row]
            for c in range(result.size):
                result[c] = own_row[c] if (own_row[c] > result[c]) | (own_row[c] != own_row[c]) else result[c]
    else:
        result[:] = np.inf
        for row in range(first, last):
            own_row = values[row]
            for c in range(result.size):
                result[c] = own_row[c] if (own_row[c] < result[c]) | (own_row[c] != own_row[c]) else result[c]


@chunked(noalias=True)
def reduce_segments(values, starts, ends, groups, kind, result, start, stop):
    """`result[k]` (K, D) is the sum, product, maximum or minimum (`kind`) of the rows of segment k."""
    single = values.shape[1] == 1
    line = values.reshape(-1)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            if not single:
                _reduce_columns(values, first, last, kind, result[k])
            elif kind == SUM:
                result[k, 0] = _sum(line, first, last)
            elif kind == PROD:
                result[k, 0] = _product(line, first, last)
            elif kind == MAX:
                result[k, 0] = _largest(line, first, last)
            else:
                result[k, 0] = _smallest(line, first, last)


@chunked(noalias=True)
def spread_segments(g, starts, ends, groups, result, start, stop):
    """Row k of `g` (K, D) in each row of segment k of `result` (M, D)."""
    single = g.shape[1] == 1
    line = result.reshape(-1)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(result))
            if single:
                value = g[k, 0]
                for row in range(first, last):
                    line[row] = value
            else:
                operands = g[k]
                for row in range(first, last):
                    to = result[row]
                    for c in range(to.size):
                        to[c] = operands[c]


@chunked(noalias=True)
def extreme_gradients(g, values, output, starts, ends, groups, gx, start, stop):
    """Rows that are their segment's `output` (NaN: any NaN) share its gradient evenly."""
    columns = values.shape[1]
    count, share = np.empty(columns, np.int64), np.empty(columns, g.dtype)
    line, line_to = values.reshape(-1), gx.reshape(-1)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            if columns == 1:
                top, hits = output[k, 0], 0
                for row in range(first, last):
                    hits += (line[row] == top) | (line[row] != line[row])
                part = type(top)(g[k, 0] / type(top)(hits))
                for row in range(first, last):
                    line_to[row] = part if (line[row] == top) | (line[row] != line[row]) else 0
                continue
            best, gradient = output[k], g[k]
            count[:] = 0
            for row in range(first, last):
                x = values[row]
                for c in range(columns):
                    count[c] += (x[c] == best[c]) | (x[c] != x[c])
            for c in range(columns):
                share[c] = gradient[c] / count[c]
            for row in range(first, last):
                x, to = values[row], gx[row]
                for c in range(columns):
                    to[c] = share[c] if (x[c] == best[c]) | (x[c] != x[c]) else 0


@chunked(noalias=True)
def product_gradients(g, values, starts, ends, groups, gx, start, stop):
    """Each row gets the product of the others: of those that are not 0, where no other one is."""
    columns = values.shape[1]
    zeros, share = np.empty(columns, np.int64), np.empty(columns, g.dtype)
    line, line_to = values.reshape(-1), gx.reshape(-1)
    unit = type(g[0, 0])(1)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            if columns == 1:
                part, none = g[k, 0], 0
                for row in range(first, last):
                    none += line[row] == 0
                    part *= line[row] if line[row] != 0 else unit
                for row in range(first, last):
                    zero = line[row] == 0
                    line_to[row] = part / (unit if zero else line[row]) if none == zero else 0
                continue
            gradient = g[k]
            zeros[:] = 0
            for c in range(columns):
                share[c] = gradient[c]
            for row in range(first, last):
                x = values[row]
                for c in range(columns):
                    zeros[c] += x[c] == 0
                    share[c] *= x[c] if x[c] != 0 else unit
            for row in range(first, last):
                x, to = values[row], gx[row]
                for c in range(columns):
                    zero = x[c] == 0
                    to[c] = share[c] / (unit if zero else x[c]) if zeros[c] == zero else 0


@compiled
def _softmax(values, first, last, result):
    top, total = _largest(values, first, last), type(values[0])(0)
    for row in range(first, last):
        result[row] = exp(values[row] - top)
    for row in range(first, last):
        total += result[row]
    for row in range(first, last):
        result[row] /= total


@chunked(noalias=True)
def softmax_segments(values, starts, ends, groups, result, start, stop):
    """exp(values), scaled to sum to 1 over the rows of each segment, in each column."""
    columns = values.shape[1]
    top, total = np.empty(columns, values.dtype), np.empty(columns, values.dtype)
    line, line_to = values.reshape(-1), result.reshape(-1)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            if columns == 1:
                _softmax(line, first, last, line_to)
                continue
            top[:] = -np.inf
            total[:] = 0
            for row in range(first, last):
                own_row = values[row]
                for c in range(columns):
                    top[c] = own_row[c] if own_row[c] > top[c] else top[c]
            for row in range(first, last):
                own_row, to = values[row], result[row]
                for c in range(columns):
                    value = exp(own_row[c] - top[c])
                    to[c] = value
                    total[c] += value
            for row in range(first, last):
                to = result[row]
                for c in range(columns):
                    to[c] /= total[c]


@chunked(noalias=True)
def squares(values, starts, ends, groups, centered, result, start, stop):
    """`result[k]` (K, D) is the sum of the squares of segment k, of the distances from its mean with `centered`; added up in float64."""
    columns = values.shape[1]
    mean, total = np.empty(columns, np.float64), np.empty(columns, np.float64)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            mean[:], total[:] = 0, 0
            if centered and last > first:
                for row in range(first, last):
                    own_row = values[row]
                    for c in range(columns):
                        mean[c] += own_row[c]
                for c in range(columns):
                    mean[c] /= last - first
            for row in range(first, last):
                own_row = values[row]
                for c in range(columns):
                    distance = own_row[c] - mean[c]
                    total[c] += distance * distance
            result[k] = total


@chunked(noalias=True)
def log_sums(values, starts, ends, groups, result, start, stop):
    """`result[k]` (K, D) is the logarithm of the sum of exp of the rows of segment k; -inf of none."""
    columns = values.shape[1]
    top, total = np.empty(columns, values.dtype), np.empty(columns, values.dtype)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            top[:], total[:] = -np.inf, 0
            for row in range(first, last):
                own_row = values[row]
                for c in range(columns):
                    top[c] = own_row[c] if (own_row[c] > top[c]) | (own_row[c] != own_row[c]) else top[c]
            for c in range(columns):  # an infinite one is subtracted from nothing
                top[c] = top[c] if np.abs(top[c]) < np.inf else (top[c] if top[c] != top[c] else 0)
            for row in range(first, last):
                own_row = values[row]
                for c in range(columns):
                    total[c] += exp(own_row[c] - top[c])
            to = result[k]
            for c in range(columns):
                to[c] = top[c] + np.log(total[c])


@chunked(noalias=True)
def combine(values, g, starts, ends, groups, how, result, start, stop):
    """Each row of segment k with row k of `g` (K, D) or (K, 1): their sum, product or quotient (`how`)."""
    columns = values.shape[1]
    single = g.shape[1] == 1
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            own = g[k]
            number = own[0]
            for row in range(first, last):
                own_row, to = values[row], result[row]
                if how == SUM:
                    for c in range(columns):
                        to[c] = own_row[c] + (number if single else own[c])
                elif how == PROD:
                    for c in range(columns):
                        to[c] = own_row[c] * (number if single else own[c])
                else:
                    for c in range(columns):
                        to[c] = own_row[c] / (number if single else own[c])


@chunked(noalias=True)
def softmax_gradients(g, output, starts, ends, groups, gx, start, stop):
    """Gradient of the values of which `output` is the softmax: what each row's gradient is above their weighed mean, weighed."""
    columns = output.shape[1]
    mean = np.empty(columns, output.dtype)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(output))
            mean[:] = 0
            for row in range(first, last):
                own_row, weight = g[row], output[row]
                for c in range(columns):
                    mean[c] += own_row[c] * weight[c]
            for row in range(first, last):
                own_row, weight, to = g[row], output[row], gx[row]
                for c in range(columns):
                    to[c] = weight[c] * (own_row[c] - mean[c])


@chunked(noalias=True)
def log_sum_gradients(g, values, output, starts, ends, groups, gx, start, stop):
    """Gradient of the values of which `output` (K, D) are the `log_sums`: their softmax times `g` (K, D); 0 where all are -inf."""
    columns = values.shape[1]
    level = np.empty(columns, values.dtype)
    for group in range(start, stop):
        for k in range(groups[group], groups[group + 1]):
            first, last = max(starts[k], 0), min(ends[k], len(values))
            share, top = g[k], output[k]
            for c in range(columns):
                level[c] = 0 if top[c] == -np.inf else top[c]
            for row in range(first, last):
                own_row, to = values[row], gx[row]
                for c in range(columns):
                    to[c] = exp(own_row[c] - level[c]) * share[c]
