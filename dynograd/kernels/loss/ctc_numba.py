"""Numba kernels of the CTC loss: alpha and beta recursions in log space, one sequence after the other.

Between labels and at both ends stands a blank, so a target of S labels has S + 1 blanks: state `i` is blank i and the label i
that follows it. Both kinds lie in rows of their own, of a width that is a multiple of `LANES`: what lies beyond the target is -inf
and needs no branch. float32 alphas are kept relative to the largest of their step, and those maxima are added up in float64, so
that long sequences lose no digits.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.formula.logarithms_numba import log
from dynograd.kernels.formula.math_numba import exp
from dynograd.kernels.rows.row_programs_numba import ordered, unordered

LANES = 16  # float32 numbers of a vector of 64 bytes


@compiled(in_order=True, inline=True)
def _either(a, b):
    """log(exp(a) + exp(b)), -inf of two -inf."""
    top = a if a > b else b
    low = b if a > b else a
    base = top if top > -np.inf else type(a)(0)
    return top + log(type(a)(1) + exp(low - base))


@compiled(in_order=True, inline=True)
def _any(a, b, c):
    """log(exp(a) + exp(b) + exp(c)), -inf of three -inf."""
    high = a if a > b else b
    low = b if a > b else a
    top = high if high > c else c
    middle = c if high > c else high
    base = top if top > -np.inf else type(a)(0)
    return top + log(type(a)(1) + exp(low - base) + exp(middle - base))


@compiled
def _highest(blanks, labels, width):
    """The largest number of a step, 0 where there is none."""
    best = ordered(type(blanks[0])(-np.inf))
    for i in range(width):
        key, other = ordered(blanks[i]), ordered(labels[i])
        key = other if other > key else key
        best = key if key > best else best
    result = unordered(best)
    return result if result > -np.inf and result < np.inf else type(result)(0)


@compiled
def _prepare(labels, length, skips):
    """-inf where the step from one label to the next needs the blank between them, 0 where it may be left out."""
    skips[:] = -np.inf
    for i in range(1, length):
        if labels[i] != labels[i - 1]:
            skips[i] = 0


@chunked(noalias=True)
def alphas(x, time_step, row_step, targets, input_lengths, target_lengths, blank, kept, shifts, losses, start, stop):
    """Loss of each sequence; log of the probability of each state after each step in `kept` (N, T, 2, width), but for `shifts` (N, T).

    `x`: rows of log-probabilities; that of sequence n at step t is row `n * row_step + t * time_step`.
    """
    width = kept.shape[3]
    low = type(x[0, 0])(-np.inf)
    skips, before = np.empty(width, x.dtype), np.empty(width + 1, x.dtype)
    emitted = np.empty(width, x.dtype)
    for n in range(start, stop):
        steps, length = input_lengths[n], target_lengths[n]
        kept[n, steps:] = 0  # nobody reads it, but the same numbers leave the same memory
        shifts[n, steps:] = 0
        if steps == 0:
            losses[n] = 0 if length == 0 else np.inf
            continue
        labels = targets[n]
        _prepare(labels, length, skips)
        total = 0.0
        emitted[:] = low
        for t in range(steps):
            row = x[n * row_step + t * time_step]
            on_blank, on_label = kept[n, t, 0], kept[n, t, 1]
            for i in range(length):
                emitted[i] = row[labels[i]]
            silent = row[blank]
            if t == 0:
                on_blank[:] = low
                on_label[:] = low
                on_blank[0] = silent
                if length > 0:
                    on_label[0] = emitted[0]
            else:
                was_blank = kept[n, t - 1, 0]
                before[0] = low
                before[1:] = kept[n, t - 1, 1]
                shift = shifts[n, t - 1]
                total += shift
                change = type(silent)(shift)
                silent -= change
                for i in range(width):
                    on_blank[i] = _either(was_blank[i], before[i]) + silent
                for i in range(width):
                    on_label[i] = _any(before[i + 1], was_blank[i], before[i] + skips[i]) + (emitted[i] - change)
            shifts[n, t] = _highest(on_blank, on_label, width)
        ended = np.float64(kept[n, steps - 1, 0, length])
        if length > 0:
            ended = _either(ended, np.float64(kept[n, steps - 1, 1, length - 1]))
        losses[n] = -(ended + total)


@chunked(noalias=True)
def narrow_losses(losses, zero_infinity, result, start, stop):
    """result = losses; 0 in the place of infinity where `zero_infinity` is set."""
    for n in range(start, stop):
        loss = losses[n]
        result[n] = 0.0 if zero_infinity and loss == np.inf else loss


@chunked(noalias=True)
def gradients(
    g,
    x,
    time_step,
    row_step,
    targets,
    input_lengths,
    target_lengths,
    blank,
    kept,
    shifts,
    losses,
    silenced,
    gx,
    start,
    stop,
):
    """exp(x) minus the probability that a class stands at a step, given the target; times `g[n]`. Zeros beyond the sequence.

    A sequence without any alignment gets NaN, or 0 where `silenced`.
    """
    width = kept.shape[3]
    low = type(x[0, 0])(-np.inf)
    skips, emitted = np.empty(width + 1, x.dtype), np.empty(width, x.dtype)
    # what the states of the next step give, their own probability included; one more, -inf, at the end
    next_blank, next_label = np.empty(width + 1, x.dtype), np.empty(width + 1, x.dtype)
    blanks, others = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for n in range(start, stop):
        steps, length, loss, factor = input_lengths[n], target_lengths[n], losses[n], g[n]
        most = gx.shape[0] // g.size
        for t in range(steps, most):
            gx[n * row_step + t * time_step, :] = 0
        if not loss < np.inf:
            for t in range(steps):
                gx[n * row_step + t * time_step, :] = 0 if silenced else np.nan
            continue
        labels = targets[n]
        _prepare(labels, length, skips)
        forward = 0.0
        for t in range(steps - 1):
            forward += shifts[n, t]
        backward = 0.0
        for t in range(steps - 1, -1, -1):
            row, result = x[n * row_step + t * time_step], gx[n * row_step + t * time_step]
            on_blank, on_label = kept[n, t, 0], kept[n, t, 1]
            if t == steps - 1:
                blanks[:] = low
                others[:] = low
                blanks[length] = 0
                if length > 0:
                    others[length - 1] = 0
            else:
                for i in range(width):
                    blanks[i] = _either(next_blank[i], next_label[i])
                for i in range(width):
                    others[i] = _any(next_label[i], next_blank[i + 1], next_label[i + 1] + skips[i + 1])
                forward -= shifts[n, t]
            for c in range(row.size):
                result[c] = factor * exp(row[c])
            offset = type(factor)(forward + backward + loss)
            share = type(factor)(0)
            for i in range(width):
                share += exp(on_blank[i] + blanks[i] + offset)
            whole = share
            for i in range(width):
                chance = exp(on_label[i] + others[i] + offset)
                emitted[i] = chance
                whole += chance
            scale = factor / whole  # the states of a step share 1; rounding has gathered up in alphas and betas
            result[blank] -= scale * share
            for i in range(length):
                result[labels[i]] -= scale * emitted[i]
            change = _highest(blanks, others, width)
            backward += change
            silent = row[blank] - change
            for i in range(width):
                next_blank[i] = blanks[i] + silent
            for i in range(length):
                next_label[i] = others[i] + (row[labels[i]] - change)
            next_blank[width] = low
            next_label[length:] = low
