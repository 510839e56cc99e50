"""Numba kernels of reductions, written from a few formulas: along rows, and down the columns of (outer, n, inner) arrays.

Long rows and columns are cut into blocks whose number depends on the sizes alone; `reductions_cpu` reduces the blocks' results
again. Within a block LLVM sums in 32 or 64 lanes, so float32 sums of millions are good to 1e-6. Positions go through np.uint64
because Numba counts negative ones from the end: the test costs the vector code.
"""

from functools import cache

import numpy as np
from numba import types
from numba.extending import overload

from dynograd.kernels.build.bits_numba import float32_of, float64_of
from dynograd.kernels.build.compiling_numba import PIPELINE, chunked, compile_source, compiled
from dynograd.kernels.formula.math_numba import exp

TILE = 1024  # columns that are reduced together: 4 KiB of results stay in the first-level cache
ROWS = 128  # rows of a block of columns

_START = {"sum": "0", "prod": "1"}
_JOIN = {"sum": "{0} + {1}", "prod": "{0} * {1}", "max": "({1} if {1} > {0} or {1} != {1} else {0})"}
_JOIN["min"] = "({1} if {1} < {0} or {1} != {1} else {0})"
_TERM = {"same": "{0}", "square": "{0} * {0}", "size": "abs({0})", "nonzero": "({0} != 0)"}


@cache
def rows(join, term):
    """out[row * blocks + b] = the b-th `block` elements of a row of `n`, summed or multiplied; items are (row, b)."""
    value = _TERM[term].format("x[np.uint64(i)]")
    source = f"""
def {join}_rows_of_{term}(x, n, block, blocks, out, start, stop):
    row, b = start // blocks, start % blocks
    for item in range(start, stop):
        begin = row * n + b * block
        end = min(row * n + n, begin + block)
        total = out.dtype.type({_START[join]})
        for i in range(begin, end):
            total = {_JOIN[join].format("total", f"out.dtype.type({value})")}
        out[item] = total
        b += 1
        if b == blocks:
            row, b = row + 1, 0
"""
    return compile_source(source, f"{join}_rows_of_{term}", {"np": np}, chunk=True)


@cache
def columns(join, term):
    """out[o, b, c] = column c of the b-th 128 rows of x[o] (n rows of `inner`, `step` elements from o to o); items are (o, b, tile)."""

    def at(place):
        return f"out.dtype.type({_TERM[term].format(f'x[np.uint64({place} + c)]')})"

    old = "out[np.uint64(into + c)]"
    update = [f"value = {at('r')}", f"held = {old}", f"{old} = {_JOIN[join].format('held', 'value')}"]
    four = [f"held = {old}"]
    for place in ("r", "r1", "r2", "r3"):
        four += [f"value = {at(place)}", f"held = {_JOIN[join].format('held', 'value')}"]
    four.append(f"{old} = held")
    deep = "\n" + " " * 16
    source = f"""
def {join}_columns_of_{term}(x, step, n, inner, out, start, stop):
    blocks, tiles = (n + {ROWS - 1}) // {ROWS}, (inner + {TILE - 1}) // {TILE}
    for item in range(start, stop):
        o, rest = item // (blocks * tiles), item % (blocks * tiles)
        b, tile = rest // tiles, rest % tiles
        count = min({TILE}, inner - tile * {TILE})
        into = (o * blocks + b) * inner + tile * {TILE}
        r = o * step + b * {ROWS} * inner + tile * {TILE}
        left = min({ROWS}, n - b * {ROWS}) - 1
        for c in range(count):
            out[np.uint64(into + c)] = {at("r")}
        r += inner
        while left >= 4:
            r1, r2, r3 = r + inner, r + 2 * inner, r + 3 * inner
            for c in range(count):
                {deep.join(four)}
            r += 4 * inner
            left -= 4
        while left > 0:
            for c in range(count):
                {deep.join(update)}
            r += inner
            left -= 1
"""
    return compile_source(source, f"{join}_columns_of_{term}", {"np": np}, chunk=True, noalias=True)


@compiled(inline=True)
def _extreme(bits, unsigned, begin, end):
    """(largest, smallest, largest without a sign) of the bits of a row, from which `_chosen` tells its extremes.

    Int extremes vectorise, float ones do not. Positive numbers sort like their bits, negative ones the other way round, and what
    lies beyond the infinities is NaN.
    """
    high = low = bits[begin]
    widest = unsigned[begin]
    for i in range(begin + 1, end):
        value, size = bits[np.uint64(i)], unsigned[np.uint64(i)]
        high = value if value > high else high
        low = value if value < low else low
        widest = size if size > widest else widest
    return high, low, widest


def _chosen(x, high, low, widest, largest):
    """The extreme number, from those of its bits."""
    return high if largest else low


@overload(_chosen, jit_options={"error_model": "numpy", **PIPELINE})
def _chosen_overload(x, high, low, widest, largest):
    if x.dtype == types.float32:
        return _chosen_float32
    if x.dtype == types.float64:
        return _chosen_float64
    return lambda x, high, low, widest, largest: high if largest else low


_INFINITY, _BELOW = np.int32(0x7F800000), np.uint32(0xFF800000)
_WIDE_INFINITY, _WIDE_BELOW = np.int64(0x7FF0000000000000), np.uint64(0xFFF0000000000000)
_NAN, _WIDE_NAN = np.float32(np.nan), np.float64(np.nan)


def _chosen_float32(x, high, low, widest, largest):
    if widest > _BELOW or high > _INFINITY:
        return _NAN
    best = (high if high >= 0 else low) if largest else (np.int32(widest) if low < 0 else low)
    return float32_of(np.int32(best))


def _chosen_float64(x, high, low, widest, largest):
    if widest > _WIDE_BELOW or high > _WIDE_INFINITY:
        return _WIDE_NAN
    best = (high if high >= 0 else low) if largest else (np.int64(widest) if low < 0 else low)
    return float64_of(np.int64(best))


@chunked
def extreme_rows(x, bits, unsigned, n, block, blocks, largest, out, start, stop):
    """out[row * blocks + b] = the largest (or smallest) of the b-th `block` elements of a row; items are (row, b).

    `bits` and `unsigned` are the memory of `x` as integers.
    """
    row, b = start // blocks, start % blocks
    for item in range(start, stop):
        begin = row * n + b * block
        high, low, widest = _extreme(bits, unsigned, begin, min(row * n + n, begin + block))
        out[item] = _chosen(x, high, low, widest, largest)
        b += 1
        if b == blocks:
            row, b = row + 1, 0


@chunked
def arg_rows(x, bits, unsigned, n, block, blocks, largest, out, places, start, stop):
    """As `extreme_rows`, and in `places` where in the row the first such element is."""
    row, b = start // blocks, start % blocks
    for item in range(start, stop):
        begin = row * n + b * block
        end = min(row * n + n, begin + block)
        high, low, widest = _extreme(bits, unsigned, begin, end)
        best = _chosen(x, high, low, widest, largest)
        out[item] = best
        unordered = best != best
        first = begin
        while first + 64 <= end:  # by 64s, without a branch for each, to the 64 that hold it
            hits = np.int32(0)
            for i in range(first, first + 64):
                value = x[np.uint64(i)]
                hits |= np.int32((value == best) | (unordered & (value != value)))
            if hits:
                break
            first += 64
        value = x[np.uint64(first)]
        while not (value == best or (unordered and value != value)):
            first += 1
            value = x[np.uint64(first)]
        places[item] = first - row * n
        b += 1
        if b == blocks:
            row, b = row + 1, 0


@chunked(noalias=True)
def arg_columns(x, n, inner, largest, out, places, start, stop):
    """out[o, c], places[o, c] = the first extreme element of column c of x[o] (n rows of `inner`); items are (o, 256 columns)."""
    tiles = (inner + 255) // 256
    best, where = np.empty(256, x.dtype), np.empty(256, np.int32)
    for item in range(start, stop):
        o, tile = item // tiles, item % tiles
        count = min(256, inner - tile * 256)
        into, row = o * inner + tile * 256, o * n * inner + tile * 256
        for c in range(count):
            best[c] = x[np.uint64(row + c)]
            where[c] = 0
        for r in range(1, n):
            row += inner
            place = np.int32(r)
            if largest:
                for c in range(count):
                    value, top = x[np.uint64(row + c)], best[c]
                    better = (value > top) | ((value != value) & (top == top))
                    best[c] = value if better else top
                    where[c] = place if better else where[c]
            else:
                for c in range(count):
                    value, top = x[np.uint64(row + c)], best[c]
                    better = (value < top) | ((value != value) & (top == top))
                    best[c] = value if better else top
                    where[c] = place if better else where[c]
        for c in range(count):
            out[np.uint64(into + c)] = best[c]
            places[np.uint64(into + c)] = where[c]


_NO_LIMIT = np.float32(np.inf)


@chunked(noalias=True)
def logsumexp_rows(x, bits, unsigned, n, out, start, stop):
    """out[row] = log(sum(exp(x))) of rows of n float32. An infinite maximum is not taken out."""
    for row in range(start, stop):
        begin = row * n
        high, low, widest = _extreme(bits, unsigned, begin, begin + n)
        top = _chosen(x, high, low, widest, True)
        if not abs(top) < _NO_LIMIT:
            top = np.float32(0)
        total = np.float32(0)
        for i in range(begin, begin + n):
            total += exp(x[np.uint64(i)] - top)
        out[row] = np.log(total) + top


@chunked(noalias=True)
def logsumexp_columns(x, n, inner, out, start, stop):
    """out[o, c] = log(sum(exp(x))) of column c of x[o] (n rows of `inner` float32); items are (o, 256 columns)."""
    tiles = (inner + 255) // 256
    top, total = np.empty(256, np.float32), np.empty(256, np.float32)
    for item in range(start, stop):
        o, tile = item // tiles, item % tiles
        count = min(256, inner - tile * 256)
        into, begin = o * inner + tile * 256, o * n * inner + tile * 256
        for c in range(count):
            top[c] = x[np.uint64(begin + c)]
            total[c] = np.float32(0)
        for row in range(begin + inner, begin + n * inner, inner):
            for c in range(count):
                value, highest = x[np.uint64(row + c)], top[c]
                top[c] = value if (value > highest) | (value != value) else highest
        for c in range(count):
            top[c] = top[c] if abs(top[c]) < _NO_LIMIT else np.float32(0)
        for row in range(begin, begin + n * inner, inner):
            for c in range(count):
                total[c] += exp(x[np.uint64(row + c)] - top[c])
        for c in range(count):
            out[np.uint64(into + c)] = np.log(total[c]) + top[c]


@chunked(noalias=True)
def logsumexp_backward(g, x, level, n, inner, gx, start, stop):
    """gx[o, r, c] = g[o, c] * exp(x[o, r, c] - level[o, c]), and 0 where level is -inf; items are (o, r)."""
    item = start
    while item < stop:
        o = item // n
        last = min(stop, (o + 1) * n)
        if inner == 1:
            height, scale = level[o], g[o]
            if height == -_NO_LIMIT:  # so is all of x, whose exp is 0 then
                height = _NO_LIMIT
            for i in range(item, last):
                gx[np.uint64(i)] = scale * exp(x[np.uint64(i)] - height)
        else:
            for begin in range(item * inner, last * inner, inner):
                for c in range(inner):
                    height = level[np.uint64(o * inner + c)]
                    height = height if height != -_NO_LIMIT else _NO_LIMIT
                    gx[np.uint64(begin + c)] = g[np.uint64(o * inner + c)] * exp(x[np.uint64(begin + c)] - height)
        item = last
