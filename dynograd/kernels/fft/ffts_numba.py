"""Fourier transforms of many lines at once: each step of the transform is done for all lines of a group, side by side in vectors.

Stockham's form (no reordering at the end) with radices 2, 3, 4, 5 and any small prime. A group of lines lies in buffers of real and
imaginary parts, element k of all its lines next to each other, so that every radix is the same plain loop.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled

LANES = 8  # lines of a group; loops over them are written out, which compilers turn into shuffles of whole vectors
COLUMNS = 4 * LANES


@compiled(noalias=True)
def _radix2(a, b, c, d, w, v, at, m, width):
    for p in range(m):
        u, y = w[at + p], v[at + p]
        first, second = p * width, (p + m) * width
        to, on = 2 * p * width, (2 * p + 1) * width
        for t in range(width):
            ar, ai = a[np.uint64(first + t)], b[np.uint64(first + t)]
            br, bi = a[np.uint64(second + t)], b[np.uint64(second + t)]
            c[np.uint64(to + t)], d[np.uint64(to + t)] = ar + br, ai + bi
            er, ei = ar - br, ai - bi
            c[np.uint64(on + t)], d[np.uint64(on + t)] = u * er - y * ei, u * ei + y * er


@compiled(noalias=True)
def _radix3(a, b, c, d, w, v, at, m, width, sign):
    half = a.dtype.type(0.5)
    root = a.dtype.type(0.8660254037844386) * sign
    for p in range(m):
        u1, y1 = w[at + 2 * p], v[at + 2 * p]
        u2, y2 = w[at + 2 * p + 1], v[at + 2 * p + 1]
        i0, i1, i2 = p * width, (p + m) * width, (p + 2 * m) * width
        o0 = 3 * p * width
        o1, o2 = o0 + width, o0 + 2 * width
        for t in range(width):
            xr, xi = a[np.uint64(i0 + t)], b[np.uint64(i0 + t)]
            yr, yi = a[np.uint64(i1 + t)], b[np.uint64(i1 + t)]
            zr, zi = a[np.uint64(i2 + t)], b[np.uint64(i2 + t)]
            sr, si = yr + zr, yi + zi
            dr, di = root * (yr - zr), root * (yi - zi)
            c[np.uint64(o0 + t)], d[np.uint64(o0 + t)] = xr + sr, xi + si
            mr, mi = xr - half * sr, xi - half * si
            er, ei = mr - di, mi + dr
            fr, fi = mr + di, mi - dr
            c[np.uint64(o1 + t)], d[np.uint64(o1 + t)] = u1 * er - y1 * ei, u1 * ei + y1 * er
            c[np.uint64(o2 + t)], d[np.uint64(o2 + t)] = u2 * fr - y2 * fi, u2 * fi + y2 * fr


@compiled(noalias=True)
def _radix4(a, b, c, d, w, v, at, m, width, sign):
    for p in range(m):
        u1, y1 = w[at + 3 * p], v[at + 3 * p]
        u2, y2 = w[at + 3 * p + 1], v[at + 3 * p + 1]
        u3, y3 = w[at + 3 * p + 2], v[at + 3 * p + 2]
        i0, i1, i2, i3 = p * width, (p + m) * width, (p + 2 * m) * width, (p + 3 * m) * width
        o0 = 4 * p * width
        o1, o2, o3 = o0 + width, o0 + 2 * width, o0 + 3 * width
        for t in range(width):
            xr, xi = a[np.uint64(i0 + t)], b[np.uint64(i0 + t)]
            yr, yi = a[np.uint64(i1 + t)], b[np.uint64(i1 + t)]
            zr, zi = a[np.uint64(i2 + t)], b[np.uint64(i2 + t)]
            wr, wi = a[np.uint64(i3 + t)], b[np.uint64(i3 + t)]
            sr, si, dr, di = xr + zr, xi + zi, xr - zr, xi - zi
            tr, ti = yr + wr, yi + wi
            er, ei = sign * (yi - wi), sign * (wr - yr)  # -i sign (y - w)
            c[np.uint64(o0 + t)], d[np.uint64(o0 + t)] = sr + tr, si + ti
            fr, fi = dr - er, di - ei
            c[np.uint64(o1 + t)], d[np.uint64(o1 + t)] = u1 * fr - y1 * fi, u1 * fi + y1 * fr
            gr, gi = sr - tr, si - ti
            c[np.uint64(o2 + t)], d[np.uint64(o2 + t)] = u2 * gr - y2 * gi, u2 * gi + y2 * gr
            hr, hi = dr + er, di + ei
            c[np.uint64(o3 + t)], d[np.uint64(o3 + t)] = u3 * hr - y3 * hi, u3 * hi + y3 * hr


@compiled(noalias=True)
def _any_radix(a, b, c, d, w, v, at, m, width, radix, roots, turns):
    """By the definition; `roots` and `turns` are cos and sin of the radix' own circle."""
    for p in range(m):
        for k in range(radix):
            to = (radix * p + k) * width
            for t in range(width):
                c[np.uint64(to + t)], d[np.uint64(to + t)] = a[np.uint64(p * width + t)], b[np.uint64(p * width + t)]
            for j in range(1, radix):
                of = (p + j * m) * width
                u, y = roots[(j * k) % radix], turns[(j * k) % radix]
                for t in range(width):
                    xr, xi = a[np.uint64(of + t)], b[np.uint64(of + t)]
                    c[np.uint64(to + t)] += u * xr - y * xi
                    d[np.uint64(to + t)] += u * xi + y * xr
            if k:
                u, y = w[at + (radix - 1) * p + k - 1], v[at + (radix - 1) * p + k - 1]
                for t in range(width):
                    xr, xi = c[np.uint64(to + t)], d[np.uint64(to + t)]
                    c[np.uint64(to + t)], d[np.uint64(to + t)] = u * xr - y * xi, u * xi + y * xr


@compiled
def _stages(a, b, c, d, n, factors, w, v, roots, turns, sign):
    """The transform of the group in (a, b); True when the result lies in (c, d)."""
    length, width, at, other, circle = n, LANES, 0, False, 0
    for place in range(factors.size):
        radix = factors[place]
        m = length // radix
        if other:
            r, i, x, y = c, d, a, b
        else:
            r, i, x, y = a, b, c, d
        if radix == 4 and width == LANES:  # of known width: half the time of a loop that asks
            _radix4(r, i, x, y, w, v, at, m, LANES, sign)
        elif radix == 4:
            _radix4(r, i, x, y, w, v, at, m, width, sign)
        elif radix == 2:
            _radix2(r, i, x, y, w, v, at, m, width)
        elif radix == 3:
            _radix3(r, i, x, y, w, v, at, m, width, sign)
        else:
            own = slice(circle, circle + radix)
            _any_radix(r, i, x, y, w, v, at, m, width, radix, roots[own], turns[own])
            circle += radix
        at += (radix - 1) * m
        length = m
        width *= radix
        other = not other
    return other


@compiled(noalias=True)
def _load(x, a, b, n, o0, o1, o2, o3, o4, o5, o6, o7):
    """(a, b)[k, lane] = the complex number k of the row that begins at o<lane>."""
    for k in range(n):
        a[np.uint64(8 * k + 0)], b[np.uint64(8 * k + 0)] = x[np.uint64(o0 + 2 * k)], x[np.uint64(o0 + 2 * k + 1)]
        a[np.uint64(8 * k + 1)], b[np.uint64(8 * k + 1)] = x[np.uint64(o1 + 2 * k)], x[np.uint64(o1 + 2 * k + 1)]
        a[np.uint64(8 * k + 2)], b[np.uint64(8 * k + 2)] = x[np.uint64(o2 + 2 * k)], x[np.uint64(o2 + 2 * k + 1)]
        a[np.uint64(8 * k + 3)], b[np.uint64(8 * k + 3)] = x[np.uint64(o3 + 2 * k)], x[np.uint64(o3 + 2 * k + 1)]
        a[np.uint64(8 * k + 4)], b[np.uint64(8 * k + 4)] = x[np.uint64(o4 + 2 * k)], x[np.uint64(o4 + 2 * k + 1)]
        a[np.uint64(8 * k + 5)], b[np.uint64(8 * k + 5)] = x[np.uint64(o5 + 2 * k)], x[np.uint64(o5 + 2 * k + 1)]
        a[np.uint64(8 * k + 6)], b[np.uint64(8 * k + 6)] = x[np.uint64(o6 + 2 * k)], x[np.uint64(o6 + 2 * k + 1)]
        a[np.uint64(8 * k + 7)], b[np.uint64(8 * k + 7)] = x[np.uint64(o7 + 2 * k)], x[np.uint64(o7 + 2 * k + 1)]


@compiled(noalias=True)
def _load_real(x, a, n, o0, o1, o2, o3, o4, o5, o6, o7):
    """a[k, lane] = number k of the row that begins at o<lane>."""
    for k in range(n):
        a[np.uint64(8 * k + 0)] = x[np.uint64(o0 + k)]
        a[np.uint64(8 * k + 1)] = x[np.uint64(o1 + k)]
        a[np.uint64(8 * k + 2)] = x[np.uint64(o2 + k)]
        a[np.uint64(8 * k + 3)] = x[np.uint64(o3 + k)]
        a[np.uint64(8 * k + 4)] = x[np.uint64(o4 + k)]
        a[np.uint64(8 * k + 5)] = x[np.uint64(o5 + k)]
        a[np.uint64(8 * k + 6)] = x[np.uint64(o6 + k)]
        a[np.uint64(8 * k + 7)] = x[np.uint64(o7 + k)]


@compiled(noalias=True)
def _store(a, b, out, n, scale, o0, o1, o2, o3, o4, o5, o6, o7):
    """The opposite of `_load`."""
    for k in range(n):
        out[np.uint64(o0 + 2 * k)] = a[np.uint64(8 * k + 0)] * scale
        out[np.uint64(o0 + 2 * k + 1)] = b[np.uint64(8 * k + 0)] * scale
        out[np.uint64(o1 + 2 * k)] = a[np.uint64(8 * k + 1)] * scale
        out[np.uint64(o1 + 2 * k + 1)] = b[np.uint64(8 * k + 1)] * scale
        out[np.uint64(o2 + 2 * k)] = a[np.uint64(8 * k + 2)] * scale
        out[np.uint64(o2 + 2 * k + 1)] = b[np.uint64(8 * k + 2)] * scale
        out[np.uint64(o3 + 2 * k)] = a[np.uint64(8 * k + 3)] * scale
        out[np.uint64(o3 + 2 * k + 1)] = b[np.uint64(8 * k + 3)] * scale
        out[np.uint64(o4 + 2 * k)] = a[np.uint64(8 * k + 4)] * scale
        out[np.uint64(o4 + 2 * k + 1)] = b[np.uint64(8 * k + 4)] * scale
        out[np.uint64(o5 + 2 * k)] = a[np.uint64(8 * k + 5)] * scale
        out[np.uint64(o5 + 2 * k + 1)] = b[np.uint64(8 * k + 5)] * scale
        out[np.uint64(o6 + 2 * k)] = a[np.uint64(8 * k + 6)] * scale
        out[np.uint64(o6 + 2 * k + 1)] = b[np.uint64(8 * k + 6)] * scale
        out[np.uint64(o7 + 2 * k)] = a[np.uint64(8 * k + 7)] * scale
        out[np.uint64(o7 + 2 * k + 1)] = b[np.uint64(8 * k + 7)] * scale


@compiled(noalias=True)
def _store_real(a, out, n, scale, o0, o1, o2, o3, o4, o5, o6, o7):
    """The opposite of `_load_real`."""
    for k in range(n):
        out[np.uint64(o0 + k)] = a[np.uint64(8 * k + 0)] * scale
        out[np.uint64(o1 + k)] = a[np.uint64(8 * k + 1)] * scale
        out[np.uint64(o2 + k)] = a[np.uint64(8 * k + 2)] * scale
        out[np.uint64(o3 + k)] = a[np.uint64(8 * k + 3)] * scale
        out[np.uint64(o4 + k)] = a[np.uint64(8 * k + 4)] * scale
        out[np.uint64(o5 + k)] = a[np.uint64(8 * k + 5)] * scale
        out[np.uint64(o6 + k)] = a[np.uint64(8 * k + 6)] * scale
        out[np.uint64(o7 + k)] = a[np.uint64(8 * k + 7)] * scale


@compiled(noalias=True)
def _load_columns(x, a, b, n, first, step, lanes):
    """(a, b)[group, k, lane] = the complex number at first + k * step + column; of columns that are not there, the last."""
    size = n * LANES
    for k in range(n):
        of = 2 * (first + k * step)
        for group in range((lanes + LANES - 1) // LANES):
            to = group * size + k * LANES
            at = of + 2 * group * LANES
            if (group + 1) * LANES <= lanes:
                for lane in range(LANES):
                    a[np.uint64(to + lane)], b[np.uint64(to + lane)] = (
                        x[np.uint64(at + 2 * lane)],
                        x[np.uint64(at + 2 * lane + 1)],
                    )
            else:
                for lane in range(LANES):
                    place = at + 2 * min(lane, lanes - 1 - group * LANES)
                    a[np.uint64(to + lane)], b[np.uint64(to + lane)] = x[np.uint64(place)], x[np.uint64(place + 1)]


@compiled(noalias=True)
def _store_columns(a, b, out, n, first, step, lanes, scale):
    """The opposite of `_load_columns`."""
    size = n * LANES
    for k in range(n):
        to = 2 * (first + k * step)
        for group in range((lanes + LANES - 1) // LANES):
            of = group * size + k * LANES
            at = to + 2 * group * LANES
            if (group + 1) * LANES <= lanes:
                for lane in range(LANES):
                    out[np.uint64(at + 2 * lane)] = a[np.uint64(of + lane)] * scale
                    out[np.uint64(at + 2 * lane + 1)] = b[np.uint64(of + lane)] * scale
            else:
                for lane in range(lanes - group * LANES):
                    out[np.uint64(at + 2 * lane)] = a[np.uint64(of + lane)] * scale
                    out[np.uint64(at + 2 * lane + 1)] = b[np.uint64(of + lane)] * scale


@chunked(noalias=True)
def transform_columns(x, out, n, inner, factors, w, v, roots, turns, sign, scale, start, stop):
    """Along the middle dim of complex (outer, n, inner) as numbers side by side; items are (outer, 32 columns).

    Several groups are read together: a row's next lines come with the first, a row further on costs a page.
    """
    size = n * LANES
    kind = x.dtype
    a, b = np.empty(COLUMNS * n, kind), np.empty(COLUMNS * n, kind)
    c, d = np.empty(size, kind), np.empty(size, kind)
    blocks = (inner + COLUMNS - 1) // COLUMNS
    for item in range(start, stop):
        column = item % blocks * COLUMNS
        first = item // blocks * n * inner + column
        lanes = min(COLUMNS, inner - column)
        _load_columns(x, a, b, n, first, inner, lanes)
        for group in range((lanes + LANES - 1) // LANES):
            own_a, own_b = a[group * size : (group + 1) * size], b[group * size : (group + 1) * size]
            if _stages(own_a, own_b, c, d, n, factors, w, v, roots, turns, sign):
                own_a[:] = c
                own_b[:] = d
        _store_columns(a, b, out, n, first, inner, lanes, scale)


@chunked(noalias=True)
def transform(x, out, n, lines, factors, w, v, roots, turns, sign, scale, start, stop):
    """Of complex rows (lines, n) as numbers side by side; items are groups of rows."""
    kind = x.dtype
    a, b = np.empty(n * LANES, kind), np.empty(n * LANES, kind)
    c, d = np.empty(n * LANES, kind), np.empty(n * LANES, kind)
    base = np.empty(LANES, np.int64)
    for item in range(start, stop):
        first = item * LANES
        lanes = min(LANES, lines - first)
        for lane in range(LANES):
            base[lane] = 2 * n * (first + min(lane, lanes - 1))
        _load(x, a, b, n, base[0], base[1], base[2], base[3], base[4], base[5], base[6], base[7])
        if _stages(a, b, c, d, n, factors, w, v, roots, turns, sign):
            re, im = c, d
        else:
            re, im = a, b
        if lanes == LANES:
            _store(re, im, out, n, scale, base[0], base[1], base[2], base[3], base[4], base[5], base[6], base[7])
        else:
            for lane in range(lanes):
                for k in range(n):
                    to = base[lane] + 2 * k
                    out[np.uint64(to)] = re[np.uint64(k * LANES + lane)] * scale
                    out[np.uint64(to + 1)] = im[np.uint64(k * LANES + lane)] * scale


@compiled(noalias=True)
def _apart(re, im, first, second, n, part):
    """Of lines whose parts are transforms of two real rows each: (one, two)[k, lane] for the first and the second row, complex."""
    for k in range(n // 2 + 1):
        back = (n - k) % n
        for lane in range(LANES):
            zr, zi = re[np.uint64(k * LANES + lane)], im[np.uint64(k * LANES + lane)]
            yr, yi = re[np.uint64(back * LANES + lane)], im[np.uint64(back * LANES + lane)]
            at, on = 2 * k * LANES + lane, (2 * k + 1) * LANES + lane
            first[np.uint64(at)], first[np.uint64(on)] = (zr + yr) * part, (zi - yi) * part
            second[np.uint64(at)], second[np.uint64(on)] = (zi + yi) * part, (yr - zr) * part


@compiled
def _mirror(out, begin, n):
    """The second half of n complex numbers, of which the first stands at `begin`: the conjugates of the first, backwards."""
    last = begin + 2 * n
    for k in range(2, 2 * ((n + 1) // 2), 2):
        re, im = out[np.uint64(begin + k)], out[np.uint64(begin + k + 1)]
        out[np.uint64(last - k)], out[np.uint64(last - k + 1)] = re, -im


@chunked(noalias=True)
def halves(x, out, n, width, rows, factors, w, v, roots, turns, sign, scale, start, stop):
    """Of real rows (rows, n) the first `width` numbers: n // 2 + 1, or all n. Two rows are the parts of one complex line.

    Items are groups of 16 rows.
    """
    kind = x.dtype
    count = n // 2 + 1
    room = max(n, 2 * count) * LANES
    a, b, c, d = np.empty(room, kind), np.empty(room, kind), np.empty(room, kind), np.empty(room, kind)
    part = scale * kind.type(0.5)
    base = np.empty(LANES, np.int64)
    for item in range(start, stop):
        first = 2 * item * LANES
        for lane in range(LANES):
            base[lane] = min(first + lane, rows - 1) * n
        _load_real(x, a, n, base[0], base[1], base[2], base[3], base[4], base[5], base[6], base[7])
        for lane in range(LANES):
            base[lane] = min(first + LANES + lane, rows - 1) * n
        _load_real(x, b, n, base[0], base[1], base[2], base[3], base[4], base[5], base[6], base[7])
        if _stages(a, b, c, d, n, factors, w, v, roots, turns, sign):
            _apart(c, d, a, b, n, part)
            element, two = a, b
        else:
            _apart(a, b, c, d, n, part)
            element, two = c, d
        for which in range(2):
            result = two if which else element
            lanes = min(LANES, rows - first - which * LANES)
            for lane in range(LANES):
                base[lane] = (first + which * LANES + lane) * 2 * width
            if lanes == LANES:
                _store_real(
                    result,
                    out,
                    2 * count,
                    kind.type(1),
                    base[0],
                    base[1],
                    base[2],
                    base[3],
                    base[4],
                    base[5],
                    base[6],
                    base[7],
                )
            else:
                for lane in range(lanes):
                    for k in range(2 * count):
                        out[np.uint64(base[lane] + k)] = result[np.uint64(k * LANES + lane)]
            if width == n:
                for lane in range(lanes):
                    _mirror(out, base[lane], n)


@compiled(noalias=True)
def _joined(first, second, a, b, n):
    """The opposite of `_apart`; what stands at 0 and n / 2 is taken as real."""
    for k in range(n // 2 + 1):
        alone = k == 0 or 2 * k == n
        for lane in range(LANES):
            at, on = np.uint64(2 * k * LANES + lane), np.uint64((2 * k + 1) * LANES + lane)
            pr, qr = first[at], second[at]
            pi, qi = (first[on] * 0, second[on] * 0) if alone else (first[on], second[on])
            here = np.uint64(k * LANES + lane)
            a[here], b[here] = pr - qi, pi + qr
            if not alone:
                there = np.uint64((n - k) * LANES + lane)
                a[there], b[there] = pr + qi, qr - pi


@chunked(noalias=True)
def from_halves(x, out, n, rows, factors, w, v, roots, turns, sign, scale, start, stop):
    """Real rows (rows, n) from the first n // 2 + 1 of their transforms; two rows in one complex line. Items are groups of 16 rows."""
    kind = out.dtype
    count = n // 2 + 1
    room = max(n, 2 * count) * LANES
    a, b, c, d = np.empty(room, kind), np.empty(room, kind), np.empty(room, kind), np.empty(room, kind)
    base = np.empty(LANES, np.int64)
    for item in range(start, stop):
        first = 2 * item * LANES
        for lane in range(LANES):
            base[lane] = min(first + lane, rows - 1) * 2 * count
        _load_real(x, c, 2 * count, base[0], base[1], base[2], base[3], base[4], base[5], base[6], base[7])
        for lane in range(LANES):
            base[lane] = min(first + LANES + lane, rows - 1) * 2 * count
        _load_real(x, d, 2 * count, base[0], base[1], base[2], base[3], base[4], base[5], base[6], base[7])
        _joined(c, d, a, b, n)
        if _stages(a, b, c, d, n, factors, w, v, roots, turns, sign):
            element, two = c, d
        else:
            element, two = a, b
        for which in range(2):
            result = two if which else element
            lanes = min(LANES, rows - first - which * LANES)
            for lane in range(LANES):
                base[lane] = (first + which * LANES + lane) * n
            if lanes == LANES:
                _store_real(
                    result, out, n, scale, base[0], base[1], base[2], base[3], base[4], base[5], base[6], base[7]
                )
            else:
                for lane in range(lanes):
                    for k in range(n):
                        out[np.uint64(base[lane] + k)] = result[np.uint64(k * LANES + lane)] * scale


@compiled(noalias=True)
def _twist(a, b, n, row, angle):
    """(a, b)[k, lane] times exp(i * angle * (row + lane) * k), by powers in float64: their error stays below 1e-12 for any n here."""
    ur, ui, sr, si = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for lane in range(LANES):
        ur[lane], ui[lane] = 1.0, 0.0
        sr[lane], si[lane] = np.cos(angle * (row + lane)), np.sin(angle * (row + lane))
    for k in range(n):
        for lane in range(LANES):
            at = np.uint64(k * LANES + lane)
            xr, xi = a[at], b[at]
            pr, pi = ur[np.uint64(lane)], ui[np.uint64(lane)]
            wr, wi = a.dtype.type(pr), a.dtype.type(pi)
            a[at], b[at] = xr * wr - xi * wi, xr * wi + xi * wr
            qr, qi = sr[np.uint64(lane)], si[np.uint64(lane)]
            ur[np.uint64(lane)], ui[np.uint64(lane)] = pr * qr - pi * qi, pr * qi + pi * qr


@chunked(noalias=True)
def transform_turned(x, out, n, lines, angle, factors, w, v, roots, turns, sign, scale, start, stop):
    """Of complex rows (lines, n), each times a power of exp(i * angle), into (n, lines). Items are 32 rows, of which all results go out together."""
    size = n * LANES
    kind = x.dtype
    a, b = np.empty(COLUMNS * n, kind), np.empty(COLUMNS * n, kind)
    c, d = np.empty(size, kind), np.empty(size, kind)
    base = np.empty(LANES, np.int64)
    for item in range(start, stop):
        column = item * COLUMNS
        lanes = min(COLUMNS, lines - column)
        for group in range((lanes + LANES - 1) // LANES):
            first = column + group * LANES
            for lane in range(LANES):
                base[lane] = 2 * n * min(first + lane, lines - 1)
            own_a, own_b = a[group * size : (group + 1) * size], b[group * size : (group + 1) * size]
            _load(x, own_a, own_b, n, base[0], base[1], base[2], base[3], base[4], base[5], base[6], base[7])
            _twist(own_a, own_b, n, first, angle)
            if _stages(own_a, own_b, c, d, n, factors, w, v, roots, turns, sign):
                own_a[:] = c
                own_b[:] = d
        _store_columns(a, b, out, n, column, lines, lanes, scale)


@chunked(noalias=True)
def unpacked(z, out, half, coarse, fine, step, start, stop):
    """The first half + 1 of the transform of 2 * half real numbers, from that of them as `half` complex ones.

    The powers of the root of unity are coarse[k // step] * fine[k % step]. Items are numbers of the result.
    """
    for first in range(start // step * step, stop, step):
        pr, pi = coarse[2 * (first // step)], coarse[2 * (first // step) + 1]
        for k in range(max(first, start), min(first + step, stop)):
            here, there = k, half - k
            if k == half:
                here = 0
            if k == 0:
                there = 0
            zr, zi = z[np.uint64(2 * here)], z[np.uint64(2 * here + 1)]
            yr, yi = z[np.uint64(2 * there)], -z[np.uint64(2 * there + 1)]
            low = k - first
            qr, qi = fine[np.uint64(2 * low)], fine[np.uint64(2 * low + 1)]
            ur, ui = z.dtype.type(pr * qr - pi * qi), z.dtype.type(pr * qi + pi * qr)
            part = z.dtype.type(0.5)
            er, ei = part * (zr + yr), part * (zi + yi)
            dr, di = part * (zi - yi), part * (yr - zr)  # -i / 2 (z - conj)
            out[np.uint64(2 * k)] = er + ur * dr - ui * di
            out[np.uint64(2 * k + 1)] = ei + ur * di + ui * dr
