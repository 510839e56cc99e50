"""Numba kernels of losses of class numbers, on float32: rows (R, C) of scores, and scores (N, C, L) with the classes in the middle.

Cross-entropy can write the gradient of its scores while a row is in cache: `gradient` is empty where nobody wants it.
"""

import math

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.formula.math_numba import exp, minus
from dynograd.kernels.rows.row_programs_numba import ordered, unordered

WIDTH = 256  # rows along the middle dim that are handled side by side

_ZERO, _ONE = np.float32(0), np.float32(1)
_LOWEST = np.float32(-np.inf)


@compiled
def label_range(labels):
    """(lowest, highest) of flat class numbers, of which there is one at least."""
    low = high = labels[0]
    for index in range(labels.size):
        label = labels[index]
        low = label if label < low else low
        high = label if label > high else high
    return low, high


@compiled
def total_weight(labels, weight, ignored):
    """The sum of the weights of the labels that count."""
    total = 0.0
    for r in range(labels.size):
        if labels[r] != ignored:
            total += weight[labels[r]]
    return total


@chunked(noalias=True)
def cross_entropy_rows(x, labels, weight, ignored, smoothing, share, losses, statistics, gradient, start, stop):
    """Loss of each row; its maximum and sum of exp(x - maximum); `share` times the gradient of its loss."""
    with_gradient = gradient.shape[0] > 0
    spread = smoothing / np.float32(x.shape[1])
    whole = _sum(weight) if smoothing != 0 else _ZERO
    for r in range(start, stop):
        row, label = x[r], labels[r]
        best = ordered(_LOWEST)
        for c in range(row.size):
            key = ordered(row[c])
            best = key if key > best else best
        top = unordered(best)
        total = _ZERO
        if with_gradient:
            result = gradient[r]
            for c in range(row.size):
                value = exp(row[c] - top)
                result[c] = value
                total += value
        else:
            for c in range(row.size):
                total += exp(row[c] - top)
        statistics[r, 0] = top
        statistics[r, 1] = total
        if label == ignored:
            losses[r] = _ZERO
            if with_gradient:
                result = gradient[r]
                for c in range(row.size):
                    result[c] = _ZERO
            continue
        logarithm = np.float32(math.log(total))
        loss = weight[label] * minus(logarithm, minus(row[label], top))
        if smoothing != 0:
            others = _ZERO
            for c in range(row.size):
                others += weight[c] * minus(logarithm, minus(row[c], top))
            loss = (_ONE - smoothing) * loss + spread * others
        losses[r] = loss
        if with_gradient:
            result = gradient[r]
            hit = share * (_ONE - smoothing) * weight[label]
            scale = (hit + share * spread * whole) / total
            for c in range(row.size):
                result[c] *= scale
            if smoothing != 0:
                for c in range(row.size):
                    result[c] -= share * spread * weight[c]
            result[label] -= hit


@chunked(noalias=True)
def cross_entropy_gradients(g, x, labels, weight, ignored, smoothing, statistics, gx, start, stop):
    """Gradient of each row's loss times `g[r]`."""
    spread = smoothing / np.float32(x.shape[1])
    whole = _sum(weight) if smoothing != 0 else _ZERO
    for r in range(start, stop):
        row, result, label = x[r], gx[r], labels[r]
        if label == ignored:
            for c in range(row.size):
                result[c] = _ZERO
            continue
        top = statistics[r, 0]
        hit = g[r] * (_ONE - smoothing) * weight[label]
        scale = (hit + g[r] * spread * whole) / statistics[r, 1]
        for c in range(row.size):
            result[c] = exp(row[c] - top) * scale
        if smoothing != 0:
            share = g[r] * spread
            for c in range(row.size):
                result[c] -= share * weight[c]
        result[label] -= hit


@chunked(noalias=True)
def cross_entropy_inner(x, labels, weight, ignored, smoothing, share, losses, statistics, gradient, start, stop):
    """`cross_entropy_rows` of (N, C, L) scores and (N, L) labels, losses and (N, L, 2) statistics; an item is `WIDTH` places."""
    with_gradient = gradient.shape[0] > 0
    classes, places = x.shape[1], x.shape[2]
    blocks = (places + WIDTH - 1) // WIDTH
    spread = smoothing / np.float32(classes)
    whole = _sum(weight)
    best, others = np.empty(WIDTH, np.int32), np.empty(WIDTH, np.float32)
    top, total, scale = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    for item in range(start, stop):
        n, begin = item // blocks, item % blocks * WIDTH
        width = min(WIDTH, places - begin)
        best[:] = ordered(_LOWEST)
        for c in range(classes):
            row = x[n, c, begin : begin + width]
            for j in range(width):
                key = ordered(row[j])
                best[j] = key if key > best[j] else best[j]
        for j in range(width):
            top[j] = unordered(best[j])
        total[:], others[:] = _ZERO, _ZERO
        for c in range(classes):
            row = x[n, c, begin : begin + width]
            if with_gradient:
                result = gradient[n, c, begin : begin + width]
                for j in range(width):
                    value = exp(row[j] - top[j])
                    result[j] = value
                    total[j] += value
            else:
                for j in range(width):
                    total[j] += exp(row[j] - top[j])
            if smoothing != 0:
                factor = weight[c]
                for j in range(width):
                    others[j] += factor * minus(row[j], top[j])
        for j in range(width):
            statistics[n, begin + j, 0] = top[j]
            statistics[n, begin + j, 1] = total[j]
            label = labels[n, begin + j]
            if label == ignored:
                losses[n, begin + j] = _ZERO
                scale[j] = _ZERO
                continue
            logarithm = np.float32(math.log(total[j]))
            loss = weight[label] * minus(logarithm, minus(x[n, label, begin + j], top[j]))
            hit = share * (_ONE - smoothing) * weight[label]
            if smoothing != 0:
                loss = (_ONE - smoothing) * loss + spread * minus(whole * logarithm, others[j])
                hit += share * spread * whole
            losses[n, begin + j] = loss
            scale[j] = hit / total[j]
        if with_gradient:
            _finish_inner(gradient, labels, weight, ignored, smoothing, spread, scale, share, n, begin, width)


@compiled
def _finish_inner(gradient, labels, weight, ignored, smoothing, spread, scale, share, n, begin, width):
    """Turns exponentials into gradients: times `scale`, minus the smoothed share and the hit of each place."""
    for c in range(gradient.shape[1]):
        result = gradient[n, c, begin : begin + width]
        for j in range(width):
            result[j] *= scale[j]
    for j in range(width):
        label = labels[n, begin + j]
        if label == ignored:
            for c in range(gradient.shape[1]):
                gradient[n, c, begin + j] = _ZERO
        else:
            if smoothing != 0:
                for c in range(gradient.shape[1]):
                    gradient[n, c, begin + j] -= share * spread * weight[c]
            gradient[n, label, begin + j] -= share * (_ONE - smoothing) * weight[label]


@chunked(noalias=True)
def cross_entropy_inner_gradients(g, x, labels, weight, ignored, smoothing, statistics, gx, start, stop):
    """Gradient of each place's loss times `g[n, place]`; an item is one of (N * L) places' blocks."""
    classes, places = x.shape[1], x.shape[2]
    blocks = (places + WIDTH - 1) // WIDTH
    spread = smoothing / np.float32(classes)
    whole = _sum(weight)
    top, scale = np.empty(WIDTH, np.float32), np.empty(WIDTH, np.float32)
    for item in range(start, stop):
        n, begin = item // blocks, item % blocks * WIDTH
        width = min(WIDTH, places - begin)
        for j in range(width):
            label = labels[n, begin + j]
            top[j] = statistics[n, begin + j, 0]
            scale[j] = _ZERO
            if label != ignored:
                hit = (_ONE - smoothing) * weight[label] + spread * whole
                scale[j] = g[n, begin + j] * hit / statistics[n, begin + j, 1]
        for c in range(classes):
            row, result = x[n, c, begin : begin + width], gx[n, c, begin : begin + width]
            for j in range(width):
                result[j] = exp(row[j] - top[j]) * scale[j]
        for j in range(width):
            label = labels[n, begin + j]
            if label == ignored:
                for c in range(classes):
                    gx[n, c, begin + j] = _ZERO
            else:
                if smoothing != 0:
                    for c in range(classes):
                        gx[n, c, begin + j] -= g[n, begin + j] * spread * weight[c]
                gx[n, label, begin + j] -= g[n, begin + j] * (_ONE - smoothing) * weight[label]


@compiled
def nll_losses(x, labels, weight, ignored, losses):
    """-x[n, label, place] times the label's weight, of (N, C, L) and (N, L)."""
    for n in range(labels.shape[0]):
        for place in range(labels.shape[1]):
            label = labels[n, place]
            losses[n, place] = _ZERO if label == ignored else -x[n, label, place] * weight[label]


@chunked(noalias=True)
def nll_scatter(g, labels, weight, ignored, gx, start, stop):
    """Gradients of `nll_losses`: 0 but at the labels."""
    for n in range(start, stop):
        for c in range(gx.shape[1]):
            row = gx[n, c]
            for place in range(row.size):
                row[place] = _ZERO
        for place in range(labels.shape[1]):
            label = labels[n, place]
            if label != ignored:
                gx[n, label, place] = -g[n, place] * weight[label]


@chunked(noalias=True)
def nll_scatter_rows(g, labels, weight, ignored, gx, start, stop):
    """The same of rows (R, C)."""
    for r in range(start, stop):
        row, label = gx[r], labels[r]
        for c in range(row.size):
            row[c] = _ZERO
        if label != ignored:
            row[label] = -g[r] * weight[label]


@compiled
def _sum(values):
    total = _ZERO
    for c in range(values.size):
        total += values[c]
    return total
