"""Numba kernels that copy and fill memory. Elements are unsigned numbers of their size (`copies_cpu.bits`), so few variants serve all dtypes.

Positions go through np.uint64 because Numba counts negative ones from the end: the test costs the vector code.
"""

import numpy as np

from dynograd.kernels.compiling_numba import chunked
from dynograd.kernels.lines_numba import LINE, copy_line, copy_run, fill_line, turn_line
from dynograd.kernels.tiles_numba import BYTES, transpose_lines

__all__ = ["copy_rows", "copy_triangle", "copy_turned", "copy_turned_lines", "fill"]

PAGE = 4096
TILE = 32  # two cache lines of floats; a tile and its copy (8 KiB) stay in the first-level cache


@chunked
def fill(out, value, start, stop):
    """out[i] = value[0]."""
    whole = start + (stop - start) // (2 * LINE) * (2 * LINE)
    for i in range(start, whole, 2 * LINE):
        fill_line(out, i, value, 0)
        fill_line(out, i + LINE, value, 0)
    for i in range(whole, stop):
        out[np.uint64(i)] = value[0]


@chunked(noalias=True)
def copy_rows(target, t_at, t0, t1, t2, source, s_at, s0, s1, s2, s3, n1, n2, n3, start, stop):
    """target[t_at + a * t0 + b * t1 + c * t2 + d] = source[s_at + a * s0 + b * s1 + c * s2 + d * s3]; items are (a, b, c)."""
    c, b = start % n2, start // n2 % n1
    into = t_at + start // n2 // n1 * t0 + b * t1 + c * t2
    of = s_at + start // n2 // n1 * s0 + b * s1 + c * s2
    size = target.itemsize
    ahead = np.int64(target.ctypes.data) - np.int64(source.ctypes.data)
    for _ in range(start, stop):
        if s3 == 1:
            whole = 0
            # Where the target lies less than a cache line behind the source in its page, some processors' "rep movsb" takes 12 times as long.
            beside = (ahead + (into - of) * size - 1) % PAGE < 63
            if n3 >= 32 * LINE and not beside:
                copy_run(target, into, source, of, n3)
                whole = n3
            elif beside:
                while whole + 4 * LINE <= n3:  # of one line a turn, LLVM makes a call of memcpy
                    to, come = into + whole, of + whole
                    copy_line(target, to, source, come)
                    copy_line(target, to + LINE, source, come + LINE)
                    copy_line(target, to + 2 * LINE, source, come + 2 * LINE)
                    copy_line(target, to + 3 * LINE, source, come + 3 * LINE)
                    whole += 4 * LINE
            elif n3 < 8 * LINE:
                while whole + LINE <= n3:
                    copy_line(target, into + whole, source, of + whole)
                    whole += LINE
            for d in range(whole, n3):
                target[np.uint64(into + d)] = source[np.uint64(of + d)]
        elif s3 == 0:
            whole = n3 // LINE * LINE
            for d in range(0, whole, LINE):
                fill_line(target, into + d, source, of)
            for d in range(whole, n3):
                target[np.uint64(into + d)] = source[np.uint64(of)]
        elif s3 == -1:
            whole = n3 // LINE * LINE
            for d in range(0, whole, LINE):
                turn_line(target, into + d, source, of - d)
            for d in range(whole, n3):
                target[np.uint64(into + d)] = source[np.uint64(of - d)]
        else:
            for d in range(n3):
                target[np.uint64(into + d)] = source[np.uint64(of + d * s3)]
        c, into, of = c + 1, into + t2, of + s2
        if c == n2:
            c, b, into, of = 0, b + 1, into + t1 - n2 * t2, of + s1 - n2 * s2
            if b == n1:
                b, into, of = 0, into + t0 - n1 * t1, of + s0 - n1 * s1


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
                begin, held = of + c0 + (d0 + d) * s3, d * (TILE + 1)
                if columns == TILE:  # a constant count is a few vector moves
                    for c in range(TILE):
                        block[np.uint64(held + c)] = source[np.uint64(begin + c)]
                else:
                    for c in range(columns):
                        block[np.uint64(held + c)] = source[np.uint64(begin + c)]
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
    held, first = np.int64(block.ctypes.data), np.int64(source.ctypes.data)
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
                    transpose_lines(like, held + (c * TILE + d) * size, TILE * size, come, s3 * size)
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
