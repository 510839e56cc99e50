"""Numba kernels that copy and fill memory. Elements are unsigned numbers of their size (`copies_cpu.bits`), so few variants serve all dtypes.

Positions go through np.uint64 because Numba counts negative ones from the end: the test costs the vector code.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.tiles.lines_numba import LINE, copy_line, copy_run, fill_line, prefetch, turn_line
from dynograd.kernels.tiles.tiles_numba import BYTES, transpose_lines

PAGE = 4096  # bytes of memory that processors look at as one, when they compare addresses of reads and writes
_LONG_RUN = 4096  # elements
TILE = 32  # two cache lines of floats; a tile and its copy (8 KiB) stay in the first-level cache


@compiled(inline=True)
def _to_line(target, at):
    """How many elements lie before the next cache line: stores that cross lines cost twice as much."""
    return -(np.int64(target.ctypes.data) // target.itemsize + at) % (64 // target.itemsize)


@chunked
def fill(out, value, start, stop):
    """out[i] = value[0]."""
    first = min(stop, start + _to_line(out, start))
    for i in range(start, first):
        out[np.uint64(i)] = value[0]
    whole = first + (stop - first) // (2 * LINE) * (2 * LINE)
    for i in range(first, whole, 2 * LINE):
        fill_line(out, i, value, 0)
        fill_line(out, i + LINE, value, 0)
    for i in range(whole, stop):
        out[np.uint64(i)] = value[0]


@chunked(noalias=True)
def copy_rows(target, t_at, t0, t1, t2, source, s_at, s0, s1, s2, s3, n1, n2, n3, start, stop):
    """target[t_at + a * t0 + b * t1 + c * t2 + d] = source[s_at + a * s0 + b * s1 + c * s2 + d * s3]; items are (a, b, c)."""
    item = start
    while item < stop:
        c, b, a = item % n2, item // n2 % n1, item // n2 // n1
        many = min(n2 - c, stop - item)
        into, of = t_at + a * t0 + b * t1 + c * t2, s_at + a * s0 + b * s1 + c * s2
        if s3 == 1:
            _copy_rows_ahead(target, into, t2, source, of, s2, many, n3)
        elif s3 == 0:
            _fill_rows(target, into, t2, source, of, s2, many, n3)
        elif s3 == -1:
            _turn_rows(target, into, t2, source, of, s2, many, n3)
        else:
            for _ in range(many):
                for d in range(n3):
                    target[np.uint64(into + d)] = source[np.uint64(of + d * s3)]
                into, of = into + t2, of + s2
        item += many


@compiled(noalias=True, inline=True)
def _copy_rows_ahead(target, into, t2, source, of, s2, many, n):
    """Rows of n neighbours. Of middling ones, the lines of the next row are asked for: no processor foresees a jump."""
    size = target.itemsize
    ahead = np.int64(target.ctypes.data) - np.int64(source.ctypes.data)
    for _ in range(many):
        whole = 0
        # Where the target lies less than a cache line behind the source in its page, some processors' "rep movsb" takes 12 times as long.
        if n >= _LONG_RUN and (ahead + (into - of) * size - 1) % PAGE >= 63:
            copy_run(target, into, source, of, n)
            whole = n
        elif n >= 8 * LINE:
            while whole + 4 * LINE <= n:  # of one line a turn, LLVM makes a call of memcpy
                to, come = into + whole, of + whole
                if n < _LONG_RUN:
                    prefetch(source, come + s2)
                    prefetch(source, come + s2 + LINE)
                    prefetch(source, come + s2 + 2 * LINE)
                    prefetch(source, come + s2 + 3 * LINE)
                copy_line(target, to, source, come)
                copy_line(target, to + LINE, source, come + LINE)
                copy_line(target, to + 2 * LINE, source, come + 2 * LINE)
                copy_line(target, to + 3 * LINE, source, come + 3 * LINE)
                whole += 4 * LINE
        else:
            while whole + LINE <= n:
                copy_line(target, into + whole, source, of + whole)
                whole += LINE
        for d in range(whole, n):
            target[np.uint64(into + d)] = source[np.uint64(of + d)]
        into, of = into + t2, of + s2


@compiled(noalias=True, inline=True)
def _turn_rows(target, into, t2, source, of, s2, many, n):
    """Rows of n neighbours, the last first."""
    for _ in range(many):
        whole = 0
        while whole + 4 * LINE <= n:
            to, come = into + whole, of - whole
            if n < _LONG_RUN:
                prefetch(source, come + s2)
                prefetch(source, come + s2 - LINE)
                prefetch(source, come + s2 - 2 * LINE)
                prefetch(source, come + s2 - 3 * LINE)
            turn_line(target, to, source, come)
            turn_line(target, to + LINE, source, come - LINE)
            turn_line(target, to + 2 * LINE, source, come - 2 * LINE)
            turn_line(target, to + 3 * LINE, source, come - 3 * LINE)
            whole += 4 * LINE
        while whole + LINE <= n:
            turn_line(target, into + whole, source, of - whole)
            whole += LINE
        for d in range(whole, n):
            target[np.uint64(into + d)] = source[np.uint64(of - d)]
        into, of = into + t2, of + s2


@compiled(noalias=True, inline=True)
def _fill_rows(target, into, t2, source, of, s2, many, n):
    """Rows of n times one element."""
    whole = n // LINE * LINE
    for _ in range(many):
        for d in range(0, whole, LINE):
            fill_line(target, into + d, source, of)
        for d in range(whole, n):
            target[np.uint64(into + d)] = source[np.uint64(of)]
        into, of = into + t2, of + s2


@chunked(noalias=True)
def copy_turned(target, t_at, t0, t1, t2, source, s_at, s0, s1, s3, n1, n2, n3, start, stop):
    """`copy_rows` where the step of c in `source` is 1, tile by tile; items are (a, b, 32 places of c).

    Each tile goes through a small block of memory: lines far apart often share a place in the cache.
    """
    block = np.empty(TILE * (TILE + 1), target.dtype)
    tiles = (n2 + TILE - 1) // TILE
    for item in range(start, stop):
        rest, c0 = item // tiles, item % tiles * TILE
        a, b = rest // n1, rest % n1
        into = t_at + a * t0 + b * t1
        of = s_at + a * s0 + b * s1
        columns = min(TILE, n2 - c0)
        for d0 in range(0, n3, TILE):
            rows = min(TILE, n3 - d0)
            for d in range(rows):
                begin, at = of + c0 + (d0 + d) * s3, d * (TILE + 1)
                if columns == TILE:  # a constant count is a few vector moves
                    for c in range(TILE):
                        block[np.uint64(at + c)] = source[np.uint64(begin + c)]
                else:
                    for c in range(columns):
                        block[np.uint64(at + c)] = source[np.uint64(begin + c)]
            for c in range(columns):
                begin = into + (c0 + c) * t2 + d0
                if rows == TILE:
                    for d in range(TILE):
                        target[np.uint64(begin + d)] = block[np.uint64(d * (TILE + 1) + c)]
                else:
                    for d in range(rows):
                        target[np.uint64(begin + d)] = block[np.uint64(d * (TILE + 1) + c)]


@chunked(noalias=True)
def copy_turned_lines(like, target, t_at, t0, t1, t2, source, s_at, s0, s1, s3, n1, n2, n3, start, stop):
    """`copy_turned` for elements of 4 or 8 bytes, whose squares are turned in registers. `like` is an empty array of floats as large."""
    block = np.empty(TILE * TILE, target.dtype)
    size = target.itemsize
    lanes = BYTES // size
    from_block, first = np.int64(block.ctypes.data), np.int64(source.ctypes.data)
    tiles = (n2 + TILE - 1) // TILE
    for item in range(start, stop):
        rest, c0 = item // tiles, item % tiles * TILE
        a, b = rest // n1, rest % n1
        into = t_at + a * t0 + b * t1 + c0 * t2
        of = s_at + a * s0 + b * s1 + c0
        columns = min(TILE, n2 - c0)
        for d0 in range(0, n3, TILE):
            rows = min(TILE, n3 - d0)
            if columns < lanes or rows < lanes:
                for c in range(columns):
                    for d in range(d0, d0 + rows):
                        target[np.uint64(into + c * t2 + d)] = source[np.uint64(of + c + d * s3)]
                continue
            for j in range(0, rows, lanes):
                d = min(j, rows - lanes)
                for i in range(0, columns, lanes):
                    c = min(i, columns - lanes)
                    come = first + (of + c + (d0 + d) * s3) * size
                    transpose_lines(like, from_block + (c * TILE + d) * size, TILE * size, come, s3 * size)
            if rows == TILE:
                for c in range(columns):
                    to = into + c * t2 + d0
                    copy_line(target, to, block, c * TILE)
                    copy_line(target, to + LINE, block, c * TILE + LINE)
            else:
                for c in range(columns):
                    to = into + c * t2 + d0
                    for d in range(rows):
                        target[np.uint64(to + d)] = block[np.uint64(c * TILE + d)]


@chunked(noalias=True)
def copy_triangle(source, rows, columns, diagonal, lower, target, start, stop):
    """Rows of matrices with 0 above a diagonal (below it unless `lower`); items are rows."""
    for item in range(start, stop):
        begin = item * columns
        edge = item % rows + diagonal + (1 if lower else 0)
        edge = min(max(edge, 0), columns)
        if lower:
            for c in range(begin, begin + edge):
                target[np.uint64(c)] = source[np.uint64(c)]
            for c in range(begin + edge, begin + columns):
                target[np.uint64(c)] = 0
        else:
            for c in range(begin, begin + edge):
                target[np.uint64(c)] = 0
            for c in range(begin + edge, begin + columns):
                target[np.uint64(c)] = source[np.uint64(c)]
