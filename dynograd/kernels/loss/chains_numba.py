"""Numba kernels of linear chains: the forward algorithm, its gradient, and the best path; one sequence after the other.

A step of the forward algorithm is s[j] = sum_i a[i] P[i, j] with a = exp(levels - their maximum) and P = exp(transitions - the
maximum of their column), so that K^2 multiplications and 2 K exponentials and logarithms do, not K^2 of those. Where s[j] is so
small (below `least`) that terms flushed to 0 might matter, the column is done again with logarithms: constraints of -inf or -10,000 come out
exact. The gradient goes back along the conditional chances a[i] P[i, j] / s[j] of the step before, which sum to 1, so that long
sequences lose no digits. Rows of what is kept have a `width` that is a multiple of `LANES`; columns behind K are 0.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.formula.logarithms_numba import log
from dynograd.kernels.formula.math_numba import exp

LANES = 16  # float32 numbers of a vector of 64 bytes


@compiled
def _top(values, count):
    """The largest number, 0 where that is not finite: what is subtracted before exp."""
    best = values[0]
    for i in range(1, count):
        best = values[i] if values[i] > best else best
    return best if (best > -np.inf) & (best < np.inf) else type(best)(0)


@compiled
def _sum_of_logs(levels, column, count, room):
    """(maximum, sum of exp(levels + column - maximum)); the terms in `room`."""
    for i in range(count):
        room[i] = levels[i] + column[i]
    top = _top(room, count)
    total = type(top)(0)
    for i in range(count):
        room[i] = exp(room[i] - top)
        total += room[i]
    return top, total


@chunked(noalias=True)
def likelihoods(
    x, step, weights, tops, columns, first, last, tags, labelled, starts, lengths, places, least, levels, sums, result, start, stop
):  # fmt: skip
    """Log-likelihood of the tags of each sequence; not `labelled`: minus the logarithm of the sum over all.

    x (M, K): step t of sequence n is row starts[n] + t * step. weights (K, width): P; tops (K,): the columns' maxima; columns
    (K, K): transitions[:, j] in row j. levels, sums (rows, width): of step t in row places[n] + t, for the gradient.
    """
    count, width = x.shape[1], levels.shape[1]
    a, room = np.empty(width, x.dtype), np.empty(width, x.dtype)
    for n in range(start, stop):
        steps, row, place = lengths[n], starts[n], places[n]
        if steps == 0:
            result[n] = 0
            continue
        score = 0.0
        if labelled:
            score = np.float64(first[tags[row]]) + np.float64(last[tags[row + (steps - 1) * step]])
            for t in range(steps):
                tag = tags[row + t * step]
                score += np.float64(x[row + t * step, tag])
                if t > 0:
                    score += np.float64(columns[tag, tags[row + (t - 1) * step]])
        for j in range(count):
            levels[place, j] = first[j] + x[row, j]
        total = 0.0
        for t in range(1, steps):
            values = x[row + t * step]
            before, now, s = levels[place + t - 1], levels[place + t], sums[place + t]
            top = _top(before, count)
            total += np.float64(top)
            for i in range(count):
                a[i] = exp(before[i] - top)
            s[:] = 0
            for i in range(count):
                share = a[i]
                for j in range(width):
                    s[j] += share * weights[i, j]
            lost = 0
            for j in range(count):
                lost += 0 if s[j] >= least else 1
                now[j] = log(s[j]) + tops[j] + values[j]
            if lost:
                for j in range(count):
                    if not s[j] >= least:
                        high, summed = _sum_of_logs(before, columns[j], count, room)
                        now[j] = (log(summed) + (high - top)) + values[j]
        high, summed = _sum_of_logs(levels[place + steps - 1], last, count, room)
        result[n] = score - (total + np.float64(high) + np.log(np.float64(summed)))


@chunked(noalias=True)
def gradients(
    g, step, weights, columns, last, tags, labelled, starts, lengths, places, least, levels, sums, gx, products, others, ends, start, stop
):  # fmt: skip
    """Gradients of `likelihoods`; sequences lie in groups (one item each), which have their own sums over sequences.

    gx (M, K). products (groups, K, width): a times the chances divided by s; times P they are the expected transitions.
    others (groups, K, K): the rest of the gradient of the transitions, [j, i] for i to j. ends (groups, 2, K): first and last.
    """
    count, width, groups = gx.shape[1], levels.shape[1], products.shape[0]
    a, c, p = np.empty(width, gx.dtype), np.empty(width, gx.dtype), np.empty(width, gx.dtype)
    again, chances = np.empty(width, gx.dtype), np.empty(width, gx.dtype)
    for group in range(start, stop):
        product, other, end = products[group], others[group], ends[group]
        product[:] = 0
        other[:] = 0
        end[:] = 0
        for n in range(group * g.size // groups, (group + 1) * g.size // groups):
            steps, row, place, factor = lengths[n], starts[n], places[n], g[n]
            if steps == 0:
                continue
            _, summed = _sum_of_logs(levels[place + steps - 1], last, count, p)
            for i in range(count):
                p[i] = p[i] / summed if summed != 0 else p[i]
                end[1, i] -= factor * p[i]
            if labelled:
                end[0, tags[row]] += factor
                end[1, tags[row + (steps - 1) * step]] += factor
            for t in range(steps - 1, -1, -1):
                result = gx[row + t * step]
                for i in range(count):
                    result[i] = -factor * p[i]
                if labelled:
                    result[tags[row + t * step]] += factor
                if t == 0:
                    for i in range(count):
                        end[0, i] -= factor * p[i]
                    break
                if labelled:
                    other[tags[row + t * step], tags[row + (t - 1) * step]] += factor
                before, s = levels[place + t - 1], sums[place + t]
                top = _top(before, count)
                again[:] = 0
                c[count:] = 0
                for j in range(count):
                    a[j] = exp(before[j] - top)
                    c[j] = p[j] / s[j] if s[j] >= least else type(factor)(0)
                for j in range(count):
                    if (not s[j] >= least) and p[j] != 0:
                        _, summed = _sum_of_logs(before, columns[j], count, chances)
                        for i in range(count):
                            chance = chances[i] / summed * p[j]
                            again[i] += chance
                            other[j, i] -= factor * chance
                for i in range(count):
                    share = factor * a[i]
                    total = type(factor)(0)
                    for j in range(width):
                        product[i, j] -= share * c[j]
                        total += weights[i, j] * c[j]
                    p[i] = a[i] * total + again[i]


@chunked(noalias=True)
def best_paths(x, step, transitions, first, last, starts, lengths, places, levels, tags, scores, start, stop):
    """The tags of the best path of each sequence, in its rows of `tags` (M,), and its score; the lowest tag where some tie.

    transitions (K, width); levels (rows, width), room for what the best path to each tag scores, but for the best one's.
    """
    count, width = x.shape[1], levels.shape[1]
    low = type(x[0, 0])(-np.inf)
    for n in range(start, stop):
        steps, row, place = lengths[n], starts[n], places[n]
        scores[n] = 0
        if steps == 0:
            continue
        for j in range(count):
            levels[place, j] = first[j] + x[row, j]
        total = 0.0
        for t in range(1, steps):
            values = x[row + t * step]
            before, now = levels[place + t - 1], levels[place + t]
            top = _top(before, count)
            total += np.float64(top)
            for i in range(count):
                before[i] -= top
            now[:] = low
            for i in range(count):
                level = before[i]
                for j in range(width):
                    score = level + transitions[i, j]
                    now[j] = score if score > now[j] else now[j]
            for j in range(count):
                now[j] += values[j]
        best = 0
        ended = levels[place + steps - 1]
        for j in range(1, count):
            if ended[j] + last[j] > ended[best] + last[best]:
                best = j
        scores[n] = total + np.float64(ended[best] + last[best])
        tags[row + (steps - 1) * step] = best
        for t in range(steps - 1, 0, -1):
            before = levels[place + t - 1]
            come = 0
            for i in range(1, count):
                if before[i] + transitions[i, best] > before[come] + transitions[come, best]:
                    come = i
            best = come
            tags[row + (t - 1) * step] = best
