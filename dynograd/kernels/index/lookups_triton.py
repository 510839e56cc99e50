"""Binary search in sorted rows, class bits, counts and runs on the GPU."""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.layout.creation_triton import elements


@triton.jit
def _less(first, other):
    """one < other, where NaN is the largest."""
    return (first < other) | ((other != other) & (first == first))


_SEARCH = dict(size="i32", width="i32", steps="i32", total="i64", ROWS=True, BLOCK=1024, num_warps=4)


@triton_kernel(
    variants=[
        dict(rows="*fp32", values="*fp32", out="*i64", **_SEARCH, RIGHT=False),
        dict(rows="*i64", values="*i64", out="*i32", **_SEARCH, RIGHT=True),
    ]
)
def search(
    rows, values, out, size, width, steps, total, ROWS: tl.constexpr, RIGHT: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Where each value belongs in its ascending row: values are (rows, width), or all belong to one row."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < total
    value = tl.load(values + e, mask=inside, other=0)
    start = e * 0
    if ROWS:
        start = e // width * size
    first = tl.zeros([BLOCK], tl.int64)
    last = tl.zeros([BLOCK], tl.int64) + size
    for _ in range(steps):
        middle = (first + last) >> 1
        open = inside & (first < last)
        result = tl.load(rows + start + middle, mask=open, other=0)
        if RIGHT:
            beyond = open & (_less(value, result) == 0)
        else:
            beyond = open & _less(result, value)
        first = tl.where(beyond, middle + 1, first)
        last = tl.where(open & (beyond == 0), middle, last)
    tl.store(out + e, first.to(out.dtype.element_ty), mask=inside)


@triton_kernel(
    variants=[
        dict(
            rows="*fp32",
            values="*fp32",
            out="*i8",
            size="i32",
            steps="i32",
            total="i64",
            INVERT=False,
            BLOCK=1024,
            num_warps=4,
        )
    ]
)
def contains(rows, values, out, size, steps, total, INVERT: tl.constexpr, BLOCK: tl.constexpr):
    """Whether each value is in the ascending row."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < total
    value = tl.load(values + e, mask=inside, other=0)
    first = tl.zeros([BLOCK], tl.int64)
    last = tl.zeros([BLOCK], tl.int64) + size
    for _ in range(steps):
        middle = (first + last) >> 1
        open = inside & (first < last)
        beyond = open & _less(tl.load(rows + middle, mask=open, other=0), value)
        first = tl.where(beyond, middle + 1, first)
        last = tl.where(open & (beyond == 0), middle, last)
    there = inside & (first < size)
    same = there & (tl.load(rows + first, mask=there, other=0) == value)
    if INVERT:
        same = same == 0
    tl.store(out + e, same.to(tl.int8), mask=inside)


@triton_kernel(variants=[dict(x="*i64", out="*i64", classes="i32", total="i32", BIG=False, BLOCK=1024, num_warps=4)])
def class_bits(x, out, classes, total, BIG: tl.constexpr, BLOCK: tl.constexpr):
    """out (..., classes) is 1 at the class, else 0."""
    e = elements(BLOCK, BIG)
    chosen = tl.load(x + e // classes, mask=e < total, other=-1)
    tl.store(out + e, (chosen == e % classes).to(tl.int64), mask=e < total)


@triton_kernel(
    variants=[
        dict(
            places="*i64", result="*i64", step="i32", size="i32", dim="i32", dims="i32", total="i64", BLOCK=1024, num_warps=4
        )
    ]
)  # fmt: skip
def coordinates(places, result, step, size, dim, dims, total, BLOCK: tl.constexpr):
    """Where row-major places lie along one dim: found (N, dims)."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place = tl.load(places + e, mask=e < total, other=0)
    tl.store(result + e * dims + dim, place // step % size, mask=e < total)


@triton_kernel(
    variants=[dict(x="*i64", counts="*i64", fault="*i64", site="i32", size="i32", total="i64", BLOCK=1024, num_warps=4)]
)
def count_values(x, counts, fault, site, size, total, BLOCK: tl.constexpr):
    """counts[x] += 1"""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + e, mask=e < total, other=0).to(tl.int64)
    usable = (e < total) & (value >= 0) & (value < size)
    tl.store(fault + e * 0, value * 65536 + site, mask=(e < total) & ((value < 0) | (value >= size)))
    tl.atomic_add(counts + value, tl.full([BLOCK], 1, tl.int64), mask=usable, sem="relaxed")


@triton_kernel(
    variants=[
        dict(x="*fp32", fresh="*i8", rows="i32", columns="i32", BLOCK=1024, num_warps=4),
        dict(x="*i64", fresh="*i8", rows="i32", columns="i32", BLOCK=1, num_warps=1),
    ]
)
def begins_run(x, fresh, rows, columns, BLOCK: tl.constexpr):
    """Whether a row differs from the one before it; one program a row."""
    row = tl.program_id(0).to(tl.int64)
    differ = tl.zeros([BLOCK], tl.int32)
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = (column < columns) & (row > 0)
        here = tl.load(x + row * columns + column, mask=inside, other=0)
        above = tl.load(x + (row - 1) * columns + column, mask=inside, other=0)
        differ = differ | (here != above).to(tl.int32)
    any = tl.max(differ, axis=0)
    tl.store(fresh + row + tl.arange(0, 1), tl.where(row == 0, 1, any).to(tl.int8) + tl.zeros([1], tl.int8))


@triton_kernel(
    variants=[
        dict(x="*fp32", fresh="*i8", total="i64", BLOCK=1024, num_warps=4),
        dict(x="*i64", fresh="*i8", total="i64", BLOCK=1024, num_warps=4),
    ]
)
def begins_run_of_numbers(x, fresh, total, BLOCK: tl.constexpr):
    """Whether an element differs from the one before it."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x + e, mask=e < total, other=0)
    before = tl.load(x + e - 1, mask=(e < total) & (e > 0), other=0)
    tl.store(fresh + e, ((e == 0) | (here != before)).to(tl.int8), mask=e < total)


# --- bags ----------------------------------------------------------------------------------------------------------------


_LARGEST = dict(edges="*i64", places="*i64", result="*i64", columns="i32", tiles="i32", BLOCK=128, num_warps=4)


@triton_kernel(variants=[dict(_LARGEST, rows="*fp32"), dict(_LARGEST, rows="*bf16")])
def largest_of_bags(rows, edges, places, result, columns, tiles, BLOCK: tl.constexpr):
    """Where the first largest entry of each column stands among the rows of each bag, and how many rows the bag has.

    NaN is the largest.
    """
    bag = tl.program_id(0) // tiles
    column = (tl.program_id(0) % tiles) * BLOCK + tl.arange(0, BLOCK)
    start, stop = tl.load(edges + bag), tl.load(edges + bag + 1)
    inside = column < columns
    best = tl.zeros([BLOCK], tl.float32)
    if rows.dtype.element_ty == tl.float64:
        best = best.to(tl.float64)
    at = tl.zeros([BLOCK], tl.int64)
    for row in range(start, stop):
        value = tl.load(rows + row * columns + column, mask=inside, other=0).to(best.dtype)
        wins = (row == start) | ((best == best) & ((value > best) | (value != value)))
        best = tl.where(wins, value, best)
        at = tl.where(wins, row, at)
    tl.store(places + bag.to(tl.int64) * columns + column, at, mask=inside)
    tl.store(result + bag + tl.arange(0, 1), stop - start + tl.zeros([1], tl.int64))


_SHRINK = dict(
    index="*i64", out="*fp32", count="i32", columns="i32", most="fp32", power="fp32", BLOCK=1024, num_warps=4
)


@triton_kernel(variants=[dict(_SHRINK, weight="*fp32", NORM=2), dict(_SHRINK, weight="*bf16", out="*bf16", NORM=0)])
def shrunk_rows(weight, index, out, count, columns, most, power, NORM: tl.constexpr, BLOCK: tl.constexpr):
    """out[j] is weight[index[j]], scaled to a norm of at most `most`. NORM: 1, 2, 3 for the largest size, 0 for any power."""
    j = tl.program_id(0).to(tl.int64)
    row = tl.load(index + j) * columns
    sums = tl.zeros([BLOCK], tl.float32)
    if weight.dtype.element_ty == tl.float64:
        sums = sums.to(tl.float64)
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        size = tl.abs(tl.load(weight + row + column, mask=column < columns, other=0).to(sums.dtype))
        if NORM == 1:
            sums += size
        if NORM == 2:
            sums += size * size
        if NORM == 3:
            sums = tl.maximum(sums, size)
        if NORM == 0:
            sums += tl.where(size > 0, tl.exp2(power * tl.log2(tl.where(size > 0, size, 1))), 0)
    if NORM == 3:
        norm = tl.max(sums, axis=0)
    else:
        norm = tl.sum(sums, axis=0)
    if NORM == 2:
        norm = tl.sqrt(norm)
    if NORM == 0:
        norm = tl.exp2(tl.log2(norm) / power)
    scale = tl.where(norm > most, most / (norm + 1e-7), 1.0)
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        value = tl.load(weight + row + column, mask=column < columns, other=0).to(sums.dtype) * scale
        tl.store(out + j * columns + column, value.to(out.dtype.element_ty), mask=column < columns)
