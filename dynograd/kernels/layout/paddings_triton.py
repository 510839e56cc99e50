"""Borders around the last dims, and windows of images as columns, on the GPU."""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.layout.creation_triton import elements


@triton.jit
def _source(place, size, MODE: tl.constexpr):
    """(which element of a dim stands at a place beside it, whether there is one). MODE: 0 none, 1 reflect, 2 replicate, 3 circular."""
    inside = (place >= 0) & (place < size)
    if MODE == 1:
        place = tl.abs(place)
        place = size - 1 - tl.abs(size - 1 - place)
    if MODE == 2:
        place = tl.minimum(tl.maximum(place, 0), size - 1)
    if MODE == 3:
        place = (place + size) % size
    if MODE > 0:
        inside = (place >= 0) & (place < size)
    return place, inside


_PAD = dict(
    n1="i32", n2="i32", n3="i32", m0="i32", m1="i32", m2="i32", m3="i32", b0="i32", b1="i32", b2="i32", b3="i32", s0="i64", s1="i64",
    s2="i64", s3="i64", total="i32", BIG=False, BLOCK=1024, num_warps=4,
)  # fmt: skip


@triton_kernel(
    variants=[
        dict(_PAD, x="*i32", value="*i32", out="*i32", MODE=0),
        dict(_PAD, x="*i16", value="*i16", out="*i16", MODE=1),
    ]
)
def pad(
    x, value, out, n1, n2, n3, m0, m1, m2, m3, b0, b1, b2, b3, s0, s1, s2, s3, total, MODE: tl.constexpr, BIG: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out (.., n1, n2, n3): x of sizes m with strides s in elements, b places from the front of out; `value` around it in MODE 0."""
    e = elements(BLOCK, BIG)
    inside = e < total
    line = e // n3
    third = e - line * n3
    plane = line // n2
    second = line - plane * n2
    zeroth = plane // n1
    first = plane - zeroth * n1
    p0, i0 = _source(zeroth - b0, m0, MODE)
    p1, i1 = _source(first - b1, m1, MODE)
    p2, i2 = _source(second - b2, m2, MODE)
    p3, i3 = _source(third - b3, m3, MODE)
    valid = inside & i0 & i1 & i2 & i3
    result = tl.load(
        x + p0.to(tl.int64) * s0 + p1.to(tl.int64) * s1 + p2.to(tl.int64) * s2 + p3.to(tl.int64) * s3,
        mask=valid,
        other=0,
    )
    border = tl.load(value + tl.zeros([BLOCK], tl.int32))
    tl.store(out + e, tl.where(valid, result, border), mask=inside)


_PATCH = dict(
    channels="i32", height="i32", width="i32", rows="i32", columns="i32", kh="i32", kw="i32", dh="i32", dw="i32", ph="i32", pw="i32",
    sh="i32", sw="i32", total="i32", BIG=False, BLOCK=1024, num_warps=4,
)  # fmt: skip


@triton_kernel(variants=[dict(_PATCH, x="*i32", out="*i32")])
def columns_of_patches(
    x, out, channels, height, width, rows, columns, kh, kw, dh, dw, ph, pw, sh, sw, total, BIG: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out (N, C, kh, kw, rows, columns): the windows of x (N, C, height, width), zeros outside."""
    e = elements(BLOCK, BIG)
    column = e % columns
    line = e // columns
    row = line % rows
    tap = line // rows
    right = tap % kw
    down = tap // kw % kh
    plane = (tap // kw // kh).to(tl.int64)
    y, z = row * sh - ph + down * dh, column * sw - pw + right * dw
    valid = (e < total) & (y >= 0) & (y < height) & (z >= 0) & (z < width)
    tl.store(out + e, tl.load(x + (plane * height + y) * width + z, mask=valid, other=0), mask=e < total)


@triton_kernel(
    variants=[
        dict(_PATCH, x="*bf16", out="*bf16", ACC=tl.float32),
        dict(_PATCH, x="*fp64", out="*fp64", ACC=tl.float64),
    ]
)
def patches_of_columns(
    x, out, channels, height, width, rows, columns, kh, kw, dh, dw, ph, pw, sh, sw, total, ACC: tl.constexpr, BIG: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """out (N, C, height, width): the sum of the places of all windows that lie at each place; x is (N, C, kh, kw, rows, columns)."""
    e = elements(BLOCK, BIG)
    z = e % width
    y = e // width % height
    plane = (e // width // height).to(tl.int64)
    result = tl.zeros([BLOCK], ACC)
    for down in range(kh):
        for right in range(kw):
            top, left = y + ph - down * dh, z + pw - right * dw
            row, column = top // sh, left // sw
            valid = (
                (e < total)
                & (top >= 0)
                & (left >= 0)
                & (row * sh == top)
                & (column * sw == left)
                & (row < rows)
                & (column < columns)
            )
            place = (((plane * kh + down) * kw + right) * rows + row) * columns + column
            result += tl.load(x + place, mask=valid, other=0).to(ACC)
    tl.store(out + e, result.to(out.dtype.element_ty), mask=e < total)
