"""Pooling and weighted sums along a dim on the GPU. Every element of a result is made by one thread, in a fixed order."""

from __future__ import annotations

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.layout.creation_triton import elements

_SPACE = dict(d="i32", h="i32", w="i32", nd="i32", nh="i32", nw="i32")
_MAX = dict(
    _SPACE, kd="i32", kh="i32", kw="i32", sd="i32", sh="i32", sw="i32", pd="i32", ph="i32", pw="i32", ld="i32", lh="i32", lw="i32",
    s_plane="i64", sx_d="i64", sx_h="i64", sx_w="i64", total="i32", BIG=False, BLOCK=256, num_warps=4,
)  # fmt: skip


@triton_kernel(
    variants=[
        dict(_MAX, x="*fp32", values="*fp32", places="*i32", ACC=tl.float32, LOWEST=float("-inf")),
        dict(_MAX, x="*bf16", values="*bf16", places="*i64", ACC=tl.float32, LOWEST=float("-inf")),
        dict(_MAX, x="*i64", values="*i64", places="*i64", ACC=tl.int64, LOWEST=-9223372036854775808),
    ]
)
def largest_in_windows(
    x, values, places, s_plane, sx_d, sx_h, sx_w, d, h, w, nd, nh, nw, kd, kh, kw, sd, sh, sw, pd, ph, pw, ld,
    lh, lw, total, ACC: tl.constexpr, LOWEST: tl.constexpr, BIG: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """values, places (planes, nd, nh, nw): the largest of each window of x and its place in (d, h, w); NaN is the largest."""
    e = elements(BLOCK, BIG)
    column = (e % nw).to(tl.int32) * sw - pw
    line = e // nw
    row = (line % nh).to(tl.int32) * sh - ph
    sheet = line // nh
    depth = (sheet % nd).to(tl.int32) * sd - pd
    plane = sheet // nd
    start = plane.to(tl.int64) * s_plane
    best = tl.full([BLOCK], LOWEST, ACC)
    at = tl.full([BLOCK], -1, tl.int64)
    for a in range(kd):
        for b in range(kh):
            for c in range(kw):
                i, j, k = depth + a * ld, row + b * lh, column + c * lw
                valid = (e < total) & (i >= 0) & (i < d) & (j >= 0) & (j < h) & (k >= 0) & (k < w)
                value = tl.load(x + start + i * sx_d + j * sx_h + k * sx_w, mask=valid, other=0).to(ACC)
                wins = valid & ((value > best) | (value != value) | (at < 0))
                best = tl.where(wins, value, best)
                at = tl.where(wins, (i.to(tl.int64) * h + j) * w + k, at)
    tl.store(values + e, best.to(values.dtype.element_ty), mask=e < total)
    at = tl.maximum(at, 0)  # all of it in the padding
    tl.store(places + e, at.to(places.dtype.element_ty), mask=e < total)


_RANGES = dict(_SPACE, starts="*i32", stops="*i32", total="i32", BIG=False, BLOCK=256, num_warps=4)


@triton_kernel(variants=[dict(_RANGES, x="*fp32", values="*fp32", places="*i64", ACC=tl.float32, LOWEST=float("-inf"))])
def largest_in_ranges(
    x, starts, stops, values, places, d, h, w, nd, nh, nw, total, ACC: tl.constexpr, LOWEST: tl.constexpr, BIG: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The largest of each window starts[i] to stops[i] of each dim (one after the other in `starts` and `stops`), and its place."""
    e = elements(BLOCK, BIG)
    inside = e < total
    column, line = (e % nw).to(tl.int32), e // nw
    row, sheet = (line % nh).to(tl.int32), line // nh
    depth, plane = (sheet % nd).to(tl.int32), (sheet // nd).to(tl.int64)
    d0, d1 = tl.load(starts + depth, mask=inside, other=0), tl.load(stops + depth, mask=inside, other=0)
    h0, h1 = tl.load(starts + nd + row, mask=inside, other=0), tl.load(stops + nd + row, mask=inside, other=0)
    w0, w1 = (
        tl.load(starts + nd + nh + column, mask=inside, other=0),
        tl.load(stops + nd + nh + column, mask=inside, other=0),
    )
    start = x + plane * (d * h) * w
    best = tl.full([BLOCK], LOWEST, ACC)
    at = tl.full([BLOCK], -1, tl.int64)
    for a in range(tl.max(d1 - d0, axis=0)):
        for b in range(tl.max(h1 - h0, axis=0)):
            for c in range(tl.max(w1 - w0, axis=0)):
                i, j, k = d0 + a, h0 + b, w0 + c
                valid = inside & (i < d1) & (j < h1) & (k < w1)
                place = (i.to(tl.int64) * h + j) * w + k
                value = tl.load(start + place, mask=valid, other=0).to(ACC)
                wins = valid & ((value > best) | (value != value) | (at < 0))
                best = tl.where(wins, value, best)
                at = tl.where(wins, place, at)
    tl.store(values + e, best.to(values.dtype.element_ty), mask=inside)
    tl.store(places + e, at, mask=inside)


@triton_kernel(
    variants=[
        dict(_RANGES, x="*fp32", sizes="*i32", out="*fp32", divisor="i32", ACC=tl.float32),
        dict(_RANGES, x="*bf16", sizes="*i32", out="*bf16", divisor="i32", ACC=tl.float32),
    ]
)
def average_windows(
    x, starts, stops, sizes, out, divisor, d, h, w, nd, nh, nw, total, ACC: tl.constexpr, BIG: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out (planes, nd, nh, nw): the sum of each window over `divisor`, or over the product of its sizes where that is 0."""
    e = elements(BLOCK, BIG)
    inside = e < total
    column, line = (e % nw).to(tl.int32), e // nw
    row, sheet = (line % nh).to(tl.int32), line // nh
    depth, plane = (sheet % nd).to(tl.int32), (sheet // nd).to(tl.int64)
    d0, d1 = tl.load(starts + depth, mask=inside, other=0), tl.load(stops + depth, mask=inside, other=0)
    h0, h1 = tl.load(starts + nd + row, mask=inside, other=0), tl.load(stops + nd + row, mask=inside, other=0)
    w0, w1 = (
        tl.load(starts + nd + nh + column, mask=inside, other=0),
        tl.load(stops + nd + nh + column, mask=inside, other=0),
    )
    count = tl.load(sizes + depth, mask=inside, other=1)
    count = (
        count
        * tl.load(sizes + nd + row, mask=inside, other=1)
        * tl.load(sizes + nd + nh + column, mask=inside, other=1)
    )
    count = tl.where(divisor == 0, count, divisor)
    start = x + plane * (d * h) * w
    result = tl.zeros([BLOCK], ACC)
    for a in range(tl.max(d1 - d0, axis=0)):
        for b in range(tl.max(h1 - h0, axis=0)):
            for c in range(tl.max(w1 - w0, axis=0)):
                i, j, k = d0 + a, h0 + b, w0 + c
                valid = inside & (i < d1) & (j < h1) & (k < w1)
                result += tl.load(start + (i.to(tl.int64) * h + j) * w + k, mask=valid, other=0).to(ACC)
    tl.store(out + e, (result / count.to(ACC)).to(out.dtype.element_ty), mask=inside)


_BACK = dict(
    _SPACE, firsts="*i32", lasts="*i32", sizes="*i32", divisor="i32", total="i32", BIG=False, BLOCK=128, num_warps=4
)


@triton_kernel(
    variants=[dict(_BACK, g="*fp32", out="*fp32", ACC=tl.float32), dict(_BACK, g="*bf16", out="*bf16", ACC=tl.float32)]
)
def average_windows_backward(
    g, firsts, lasts, sizes, out, divisor, d, h, w, nd, nh, nw, total, ACC: tl.constexpr, BIG: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out (planes, d, h, w): each place gets its share of the windows firsts[i] to lasts[i] - 1 that hold it."""
    e = elements(BLOCK, BIG)
    inside = e < total
    column, line = (e % w).to(tl.int32), e // w
    row, sheet = (line % h).to(tl.int32), line // h
    depth, plane = (sheet % d).to(tl.int32), (sheet // d).to(tl.int64)
    d0, d1 = tl.load(firsts + depth, mask=inside, other=0), tl.load(lasts + depth, mask=inside, other=0)
    h0, h1 = tl.load(firsts + d + row, mask=inside, other=0), tl.load(lasts + d + row, mask=inside, other=0)
    w0, w1 = (
        tl.load(firsts + d + h + column, mask=inside, other=0),
        tl.load(lasts + d + h + column, mask=inside, other=0),
    )
    result = tl.zeros([BLOCK], ACC)
    for a in range(tl.max(d1 - d0, axis=0)):
        for b in range(tl.max(h1 - h0, axis=0)):
            for c in range(tl.max(w1 - w0, axis=0)):
                i, j, k = d0 + a, h0 + b, w0 + c
                valid = inside & (i < d1) & (j < h1) & (k < w1)
                count = tl.load(sizes + i, mask=valid, other=1)
                count = (
                    count
                    * tl.load(sizes + nd + j, mask=valid, other=1)
                    * tl.load(sizes + nd + nh + k, mask=valid, other=1)
                )
                count = tl.where(divisor == 0, count, divisor)
                value = tl.load(g + ((plane * nd + i) * nh + j) * nw + k, mask=valid, other=0).to(ACC)
                result += value / count.to(ACC)
    tl.store(out + e, result.to(out.dtype.element_ty), mask=inside)


_SUMS = dict(
    starts="*i64", places="*i64", size="i32", count="i32", inner="i32", total="i32", BIG=False, BLOCK=1024, num_warps=4
)


@triton_kernel(
    variants=[
        dict(_SUMS, x="*fp32", weights="*fp32", out="*fp32", ACC=tl.float32),
        dict(_SUMS, x="*bf16", weights="*fp32", out="*bf16", ACC=tl.float32),
    ]
)
def weighted_sums(
    x,
    starts,
    places,
    weights,
    out,
    size,
    count,
    inner,
    total,
    ACC: tl.constexpr,
    BIG: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """out (outer, count, inner): a sparse matrix, whose row i is its entries from starts[i] on, times x (outer, size, inner)."""
    e = elements(BLOCK, BIG)
    inside = e < total
    column, line = e % inner, e // inner
    row, outer = line % count, (line // count).to(tl.int64)
    first = tl.load(starts + row, mask=inside, other=0)
    entries = tl.load(starts + row + 1, mask=inside, other=0) - first
    result = tl.zeros([BLOCK], ACC)
    for number in range(tl.max(entries, axis=0)):
        valid = inside & (number < entries)
        place = tl.load(places + first + number, mask=valid, other=0)
        weight = tl.load(weights + first + number, mask=valid, other=0)
        result += weight * tl.load(x + (outer * size + place) * inner + column, mask=valid, other=0).to(ACC)
    tl.store(out + e, result.to(out.dtype.element_ty), mask=inside)
