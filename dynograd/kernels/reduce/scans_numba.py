"""Numba kernels of running sums, products and extremes.

A running sum waits for each addition (4 cycles), so four rows, or four stretches of a long one, go on side by side. float32 runs
in float64, as in PyTorch.
"""

import math
from functools import cache

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compile_source
from dynograd.kernels.tiles.lines_numba import LINE, sum_line

_JOIN = {"sum": "+", "prod": "*"}


@cache
def rows(join, abreast):
    """Stretch i (of row i // stretches) of rows of n, at most `length` long, goes on from carry[i]; items are stretches.

    Four go on `abreast` where an addition takes its time: whole numbers add up in one cycle.
    """
    sign = _JOIN[join]
    four = "item + 4 <= stop and " if abreast else "False and "
    source = f"""
def running_{join}_of_rows(x, n, length, stretches, reverse, carry, out, start, stop):
    step = -1 if reverse else 1
    item = start
    while item < stop:
        row, b = item // stretches, item % stretches
        count = min(length, n - b * length)
        at = row * n + (n - 1 - b * length if reverse else b * length)
        apart = (n if stretches == 1 else step * length)
        if {four}(stretches == 1 or (b + 4 <= stretches and n - (b + 3) * length >= length)):
            one, two, three, four = carry[item], carry[item + 1], carry[item + 2], carry[item + 3]
            at2, at3, at4 = at + apart, at + 2 * apart, at + 3 * apart
            for k in range(count):
                place = k * step
                one = one {sign} x[np.uint64(at + place)]
                two = two {sign} x[np.uint64(at2 + place)]
                three = three {sign} x[np.uint64(at3 + place)]
                four = four {sign} x[np.uint64(at4 + place)]
                out[np.uint64(at + place)] = one
                out[np.uint64(at2 + place)] = two
                out[np.uint64(at3 + place)] = three
                out[np.uint64(at4 + place)] = four
            item += 4
        else:
            total = carry[item]
            for k in range(count):
                total = total {sign} x[np.uint64(at + k * step)]
                out[np.uint64(at + k * step)] = total
            item += 1
"""
    return compile_source(
        source, f"running_{join}_of_rows", {"np": np}, chunk=True, noalias=True, key=f"in order {abreast}"
    )


@chunked(noalias=True)
def sums_of_floats(x, n, length, stretches, reverse, carry, out, start, stop):
    """`rows` for sums of float32."""
    step = -1 if reverse else 1
    for item in range(start, stop):
        row, b = item // stretches, item % stretches
        count = min(length, n - b * length)
        at = row * n + (n - 1 - b * length if reverse else b * length)
        total, whole = carry[item], count // LINE * LINE
        if reverse:
            for k in range(0, whole, LINE):
                total = sum_line(out, at - k, x, at - k, True, total)
        else:
            for k in range(0, whole, LINE):
                total = sum_line(out, at + k, x, at + k, False, total)
        for k in range(whole, count):
            total = total + x[np.uint64(at + k * step)]
            out[np.uint64(at + k * step)] = total


@cache
def columns(join):
    """Down the columns of (outer, n, inner); `first` is 0 or 1 in the dtype that is summed in. Items are (outer, 512 columns)."""
    sign = _JOIN[join]
    source = f"""
def running_{join}_of_columns(x, n, inner, reverse, first, out, start, stop):
    tiles = (inner + 511) // 512
    total = np.full(512, first)
    for item in range(start, stop):
        o, tile = item // tiles, item % tiles
        count = min(512, inner - tile * 512)
        at = o * n * inner + tile * 512 + ((n - 1) * inner if reverse else 0)
        total[:] = first
        for _ in range(n):
            for c in range(count):
                held = total[c] {sign} x[np.uint64(at + c)]
                total[c] = held
                out[np.uint64(at + c)] = held
            at += -inner if reverse else inner
"""
    return compile_source(source, f"running_{join}_of_columns", {"np": np}, chunk=True, noalias=True)


@chunked(noalias=True)
def extreme_rows(x, n, largest, out, places, start, stop):
    """The largest (smallest) so far of rows of n, and where it is: of equals the last; NaN stays. Items are rows.

    What is best changes seldom: until it does, nothing waits for anything.
    """
    for row in range(start, stop):
        begin = row * n
        at, end = begin, begin + n
        while at < end:
            best, place = x[np.uint64(at)], at - begin
            out[np.uint64(at)], places[np.uint64(at)] = best, place
            at += 1
            if largest:
                while at < end and not ((x[np.uint64(at)] >= best) | (x[np.uint64(at)] != x[np.uint64(at)])):
                    out[np.uint64(at)], places[np.uint64(at)] = best, place
                    at += 1
            else:
                while at < end and not ((x[np.uint64(at)] <= best) | (x[np.uint64(at)] != x[np.uint64(at)])):
                    out[np.uint64(at)], places[np.uint64(at)] = best, place
                    at += 1


@chunked(noalias=True)
def extreme_columns(x, n, inner, largest, out, places, start, stop):
    """As `extreme_rows`, down the columns of (outer, n, inner); items are (outer, 512 columns)."""
    tiles = (inner + 511) // 512
    best, where = np.empty(512, x.dtype), np.empty(512, np.int64)
    for item in range(start, stop):
        o, tile = item // tiles, item % tiles
        count = min(512, inner - tile * 512)
        at = o * n * inner + tile * 512
        for c in range(count):
            best[c] = x[np.uint64(at + c)]
        for k in range(n):
            if largest:
                for c in range(count):
                    value, top = x[np.uint64(at + c)], best[c]
                    better = (value >= top) | (value != value)
                    best[c] = value if better else top
                    where[c] = k if better else where[c]
            else:
                for c in range(count):
                    value, top = x[np.uint64(at + c)], best[c]
                    better = (value <= top) | (value != value)
                    best[c] = value if better else top
                    where[c] = k if better else where[c]
            for c in range(count):
                out[np.uint64(at + c)] = best[c]
                places[np.uint64(at + c)] = where[c]
            at += inner


@chunked(noalias=True)
def logcumsumexp(x, n, inner, out, start, stop):
    """The logarithm of the running sum of exp along the middle of (outer, n, inner); items are (outer, inner)."""
    for item in range(start, stop):
        at = item // inner * n * inner + item % inner
        top, total = -np.inf, 0.0
        for _ in range(n):
            value = np.float64(x[np.uint64(at)])
            if value == -np.inf:
                pass
            elif value == top:
                total += 1.0
            elif value < top:
                total += math.exp(value - top)
            elif value > top:
                total = total * math.exp(top - value) + 1.0  # in float64: each such error stays in the sum
                top = value
            else:
                total = np.nan
            out[np.uint64(at)] = top + math.log(total) if total != 0 else -np.inf
            at += inner


@chunked(noalias=True)
def recurrence(x, decay, n, inner, out, start, stop):
    """r[k] = x[k] + decay[k] * r[k + 1] from the end of the middle of (outer, n, inner) on; items are (outer, inner)."""
    for item in range(start, stop):
        at = (item // inner * n + n - 1) * inner + item % inner
        total = np.float64(x[np.uint64(at)])
        out[np.uint64(at)] = total
        for _ in range(n - 1):
            at -= inner
            total = x[np.uint64(at)] + decay[np.uint64(at)] * total
            out[np.uint64(at)] = total
