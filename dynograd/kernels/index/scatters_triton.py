"""Picking, writing and adding slices or single elements at an index, on the GPU.

Indices outside their range are left out, and reported through `fault` (see `faults_cuda`). Lines of slices come as `units` of
`VEC` whole numbers each, so that several are read at once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel


@triton.jit
def checked(index, size, inside, fault, site, WRAP: tl.constexpr):
    """(index, whether it can be used); WRAP: negative numbers count from the end."""
    place = index
    if WRAP:
        place = tl.where(index < 0, index + size, index)
    outside = (place < 0) | (place >= size)
    bad = inside & outside & (site != 0)
    tl.store(fault + tl.where(outside, 0, 0), index * 65536 + site, mask=bad)
    return tl.where(outside, 0, place), inside & (place >= 0) & (place < size)


@triton.jit
def _row_of(r, count, MANY: tl.constexpr, BIG: tl.constexpr):
    """(number of the row of an index, place in it) of a flat number."""
    if BIG:
        r = r.to(tl.int64)
        count = tl.full([1, 1], 0, tl.int64) + count
    else:
        count = tl.full([1, 1], 0, tl.int32) + count.to(tl.int32)
    outer = r * 0
    if MANY:
        outer = r // count
        r = r - outer * count
    return outer.to(tl.int64), r


_PICK = dict(index="*i64", fault="*i64", site="i32", size="i32", count="i32", rows="i32", units="i32", tiles="i32")


@triton_kernel(
    variants=[
        dict(x="*i64", y="*i64", **_PICK, MANY=False, BIG=False, WRAP=True, VEC=2, ROWS=4, COLS=256, num_warps=4),
        dict(x="*i32", y="*i32", **_PICK, MANY=True, BIG=True, WRAP=False, VEC=1, ROWS=1024, COLS=1, num_warps=4),
    ]
)
def pick_slices(
    x, index, y, fault, site, size, count, rows, units, tiles, MANY: tl.constexpr, BIG: tl.constexpr, WRAP: tl.constexpr,
    VEC: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """y[o, j] = x[o, index[j]] for lines of units * VEC numbers; zeros where the index is outside."""
    width = units * VEC
    column = (tl.program_id(0) % tiles) * COLS + tl.arange(0, COLS)[None, :]
    first = tl.program_id(0) // tiles
    if BIG:
        first = first.to(tl.int64)
    r = first * ROWS + tl.arange(0, ROWS)[:, None]
    inside = r < rows
    outer, place = _row_of(r, count, MANY, BIG)
    chosen = tl.load(index + place, mask=inside, other=0).to(tl.int64)
    chosen, usable = checked(chosen, size, inside, fault, site, WRAP)
    within = column < width
    value = tl.load(x + (outer * size + chosen) * width + column, mask=usable & within, other=0)
    tl.store(y + r.to(tl.int64) * width + column, value, mask=inside & within)


_WRITE = dict(_PICK, order="*i64", skipped="i64")


@triton_kernel(
    variants=[
        dict(
            src="*i64",
            y="*i64",
            **_WRITE,
            MANY=False,
            BIG=False,
            WRAP=True,
            SORTED=False,
            ONE=False,
            VEC=2,
            ROWS=4,
            COLS=256,
            num_warps=4,
        ),
        dict(
            src="*i32",
            y="*i32",
            **_WRITE,
            MANY=True,
            BIG=False,
            WRAP=False,
            SORTED=True,
            ONE=False,
            VEC=1,
            ROWS=1024,
            COLS=1,
            num_warps=4,
        ),
    ]
)
def write_slices(
    y, index, src, order, fault, site, size, count, rows, units, tiles, skipped, MANY: tl.constexpr, BIG: tl.constexpr,
    WRAP: tl.constexpr, SORTED: tl.constexpr, ONE: tl.constexpr, VEC: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """y[o, index[j]] = src[o, j]; SORTED: the index ascends, `order` says of which row each is, and the last of equals stays."""
    width = units * VEC
    column = (tl.program_id(0) % tiles) * COLS + tl.arange(0, COLS)[None, :]
    first = tl.program_id(0) // tiles
    if BIG:
        first = first.to(tl.int64)
    r = first * ROWS + tl.arange(0, ROWS)[:, None]
    inside = r < rows
    outer, place = _row_of(r, count, MANY, BIG)
    chosen = tl.load(index + place, mask=inside, other=0).to(tl.int64)
    source = place.to(tl.int64)
    if SORTED:
        follows = tl.load(index + place + 1, mask=inside & (place + 1 < count), other=-1)
        inside = inside & (follows != chosen)
        source = tl.load(order + place, mask=inside, other=0)
    chosen, usable = checked(chosen, size, inside, fault, site, WRAP)
    within = column < width
    if ONE:
        value = tl.load(src + tl.zeros([ROWS, COLS], tl.int32))
    else:
        value = tl.load(src + (outer * count + source) * width + column, mask=usable & within, other=0)
    tl.store(y + (outer * size + chosen) * width + column, value, mask=usable & within)


@triton_kernel(
    variants=[
        dict(
            src="*bf16",
            y="*fp32",
            **_PICK,
            skipped="i64",
            MANY=False,
            BIG=False,
            WRAP=True,
            ROWS=1,
            COLS=1024,
            num_warps=4,
        ),
        dict(
            src="*fp32",
            y="*fp32",
            **_PICK,
            skipped="i64",
            MANY=True,
            BIG=False,
            WRAP=False,
            ROWS=1024,
            COLS=1,
            num_warps=4,
        ),
        dict(
            src="*i64",
            y="*i64",
            **_PICK,
            skipped="i64",
            MANY=False,
            BIG=False,
            WRAP=True,
            ROWS=4,
            COLS=256,
            num_warps=4,
        ),
    ]
)
def add_slices(
    y, index, src, fault, site, size, count, rows, units, tiles, skipped, MANY: tl.constexpr, BIG: tl.constexpr,
    WRAP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """y[o, index[j]] += src[o, j], in the order in which threads arrive; slices of the index `skipped` are left out."""
    column = (tl.program_id(0) % tiles) * COLS + tl.arange(0, COLS)[None, :]
    first = tl.program_id(0) // tiles
    if BIG:
        first = first.to(tl.int64)
    r = first * ROWS + tl.arange(0, ROWS)[:, None]
    inside = r < rows
    outer, place = _row_of(r, count, MANY, BIG)
    chosen = tl.load(index + place, mask=inside, other=0).to(tl.int64)
    chosen, usable = checked(chosen, size, inside, fault, site, WRAP)
    usable = usable & (chosen != skipped) & (column < units)
    value = tl.load(src + r.to(tl.int64) * units + column, mask=usable, other=0)
    tl.atomic_add(
        y + (outer * size + chosen) * units + column, value.to(y.dtype.element_ty), mask=usable, sem="relaxed"
    )


@triton.jit
def _joined(sum, value, OP: tl.constexpr):
    """One more element in a reduction. OP: 0 sum, 1 product, 2 largest, 3 smallest; NaN wins."""
    if OP == 0:
        return sum + value
    if OP == 1:
        return sum * value
    if OP == 2:
        return tl.where((value > sum) | (value != value), value, sum)
    return tl.where((value < sum) | (value != value), value, sum)


_RUN = dict(keys="*i64", order="*i64", size="i32", count="i32", rows="i64", units="i32", tiles="i32", skipped="i32")


@triton_kernel(
    variants=[
        dict(src="*bf16", y="*fp32", **_RUN, OP=0, INCLUDE=True, ROWS=1, COLS=512, num_warps=4),
        dict(src="*fp32", y="*fp32", **_RUN, OP=2, INCLUDE=False, ROWS=512, COLS=1, num_warps=4),
        dict(src="*i64", y="*i64", **_RUN, OP=1, INCLUDE=True, ROWS=2, COLS=256, num_warps=4),
    ]
)
def reduce_runs(
    y, keys, order, src, size, count, rows, units, tiles, skipped, OP: tl.constexpr, INCLUDE: tl.constexpr, ROWS: tl.constexpr,
    COLS: tl.constexpr,
):  # fmt: skip
    """y[o, key] gets its reduction with the slices of src[o] that have that key, in their order.

    `keys` ascend, `order` says which slice each is of. The lane at the first of equal keys walks along the others.
    """
    column = (tl.program_id(0) % tiles) * COLS + tl.arange(0, COLS)[None, :]
    r = (tl.program_id(0) // tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    outer = r // count
    place = r - outer * count
    key = tl.load(keys + place, mask=r < rows, other=size)
    before = tl.load(keys + place - 1, mask=(r < rows) & (place > 0), other=-1)
    active = (r < rows) & (key != before) & (key >= 0) & (key < size) & (key != skipped)
    within = column < units
    target = y + (outer * size + key) * units + column
    writes = active & within
    row = tl.load(order + place, mask=active, other=0)
    total = tl.load(src + (outer * count + row) * units + column, mask=writes, other=0).to(y.dtype.element_ty)
    if INCLUDE:
        total = _joined(tl.load(target, mask=writes, other=0), total, OP)
    step = 1
    active = active & (place + 1 < count)
    active = active & (tl.load(keys + place + 1, mask=active, other=-1) == key)
    while tl.max(tl.max(active.to(tl.int32), axis=1), axis=0) > 0:
        row = tl.load(order + place + step, mask=active, other=0)
        value = tl.load(src + (outer * count + row) * units + column, mask=active & within, other=0)
        total = tl.where(active, _joined(total, value.to(y.dtype.element_ty), OP), total)
        step += 1
        active = active & (place + step < count)
        active = active & (tl.load(keys + place + step, mask=active, other=-1) == key)
    tl.store(target, total, mask=writes)


# --- an index for each element -------------------------------------------------------------------------------------------


_ALONG = dict(index="*i64", fault="*i64", site="i32", size="i64", count="i32", inner="i32", total="i64")


@triton.jit
def _place_along(e, index, fault, site, size, count, inner, total, WRAP: tl.constexpr, BIG: tl.constexpr):
    """(place in (outer, size, inner), whether there is one) of the elements e of an index (outer, count, inner)."""
    if BIG:
        row, column = e // inner, e % inner
        outer = row // count
    else:
        small = e.to(tl.int32)
        row = small // inner
        outer, column = (row // count).to(tl.int64), small - row * inner
    inside = e < total
    chosen = tl.load(index + e, mask=inside, other=0).to(tl.int64)
    chosen, usable = checked(chosen, size, inside, fault, site, WRAP)
    return (outer * size + chosen) * inner + column, usable


@triton_kernel(
    variants=[
        dict(x="*i32", y="*i32", **_ALONG, BIG=False, BLOCK=1024, num_warps=4),
        dict(x="*i64", y="*i64", **_ALONG, BIG=True, BLOCK=1024, num_warps=4),
    ]
)
def pick_along(x, index, y, fault, site, size, count, inner, total, BIG: tl.constexpr, BLOCK: tl.constexpr):
    """y = x at `index` along the middle dim."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place, usable = _place_along(e, index, fault, site, size, count, inner, total, False, BIG)
    tl.store(y + e, tl.load(x + place, mask=usable, other=0), mask=e < total)


@triton_kernel(
    variants=[dict(src="*i32", y="*i32", **_ALONG, ONE=False, BIG=False, BLOCK=1024, num_warps=4)],
)
def write_along(
    y, index, src, fault, site, size, count, inner, total, ONE: tl.constexpr, BIG: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """y at `index` along the middle dim = src; ONE: src is one element for all."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place, usable = _place_along(e, index, fault, site, size, count, inner, total, False, BIG)
    source = e * 0 if ONE else e
    tl.store(y + place, tl.load(src + source, mask=usable, other=0), mask=usable)


@triton_kernel(
    variants=[
        dict(src="*fp16", y="*fp32", **_ALONG, BIG=False, BLOCK=1024, num_warps=4),
        dict(src="*fp64", y="*fp64", **_ALONG, BIG=True, BLOCK=1024, num_warps=4),
    ]
)
def add_along(y, index, src, fault, site, size, count, inner, total, BIG: tl.constexpr, BLOCK: tl.constexpr):
    """y at `index` along the middle dim += src, in the order in which threads arrive."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place, usable = _place_along(e, index, fault, site, size, count, inner, total, False, BIG)
    value = tl.load(src + e, mask=usable, other=0).to(y.dtype.element_ty)
    tl.atomic_add(y + place, value, mask=usable, sem="relaxed")


@triton_kernel(variants=[dict(places="*i64", limit="i64", **_ALONG, BIG=False, BLOCK=1024, num_warps=4)])
def places_along(places, index, fault, site, size, count, inner, total, limit, BIG: tl.constexpr, BLOCK: tl.constexpr):
    """The row-major places that `index` names along the middle dim; `limit` for those that do not exist."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place, usable = _place_along(e, index, fault, site, size, count, inner, total, False, BIG)
    tl.store(places + e, tl.where(usable, place, limit), mask=e < total)


@triton_kernel(
    variants=[
        dict(
            index="*i64",
            places="*i64",
            fault="*i64",
            site="i32",
            size="i64",
            limit="i64",
            total="i64",
            FIRST=True,
            BLOCK=1024,
            num_warps=4,
        )
    ]
)
def join_places(index, places, fault, site, size, limit, total, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    """places = places * size + index, negative numbers counted from the end; `limit` where an index is outside."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < total
    chosen, usable = checked(tl.load(index + e, mask=inside, other=0).to(tl.int64), size, inside, fault, site, True)
    if FIRST:
        before = e * 0
    else:
        before = tl.load(places + e, mask=inside, other=0)
        usable = usable & (before < limit)
    tl.store(places + e, tl.where(usable, before * size + chosen, limit), mask=inside)


@triton_kernel(
    variants=[dict(index="*i64", fault="*i64", site="i32", low="i64", high="i64", total="i64", BLOCK=1024, num_warps=4)]
)
def check_range(index, fault, site, low, high, total, BLOCK: tl.constexpr):
    """Reports an index outside low <= index < high."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(index + e, mask=e < total, other=0).to(tl.int64)
    bad = (e < total) & ((chosen < low) | (chosen >= high))
    tl.store(fault + e * 0, chosen * 65536 + site, mask=bad)


# --- where a mask is true ------------------------------------------------------------------------------------------------


@triton_kernel(variants=[dict(mask="*i8", counts="*i64", total="i64", BLOCK=4096, num_warps=8)])
def count_true(mask, counts, total, BLOCK: tl.constexpr):
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    result = tl.load(mask + e, mask=e < total, other=0) != 0
    tl.store(counts + tl.program_id(0), tl.sum(result.to(tl.int64), axis=0))


@triton_kernel(variants=[dict(mask="*i8", starts="*i64", places="*i64", total="i64", BLOCK=4096, num_warps=8)])
def true_places(mask, starts, places, total, BLOCK: tl.constexpr):
    """The places of what is true; `starts` says how many come before each block."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    result = (tl.load(mask + e, mask=e < total, other=0) != 0).to(tl.int32)
    number = tl.load(starts + tl.program_id(0)) + tl.cumsum(result, axis=0) - 1
    tl.store(places + number, e, mask=result != 0)


@triton_kernel(variants=[dict(mask="*i8", starts="*i64", numbers="*i64", total="i64", BLOCK=4096, num_warps=8)])
def run_numbers(mask, starts, numbers, total, BLOCK: tl.constexpr):
    """How many true elements there are before and at each place, minus 1."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    result = (tl.load(mask + e, mask=e < total, other=0) != 0).to(tl.int32)
    number = tl.load(starts + tl.program_id(0)) + tl.cumsum(result, axis=0) - 1
    tl.store(numbers + e, number, mask=e < total)


@triton_kernel(
    variants=[
        dict(counts="*i32", ends="*i32", totals="*i32", size="i32", BLOCK=2048, num_warps=8),
        dict(counts="*i64", ends="*i64", totals="*i64", size="i32", BLOCK=2048, num_warps=8),
    ]
)
def sums_before(counts, ends, totals, size, BLOCK: tl.constexpr):
    """The sum of what stands before each number of a row, and of the whole row; one program a row."""
    row = tl.program_id(0)
    start = row.to(tl.int64) * size
    before = tl.zeros([1], counts.dtype.element_ty)
    for first in range(0, size, BLOCK):
        place = first + tl.arange(0, BLOCK)
        count = tl.load(counts + start + place, mask=place < size, other=0)
        total = tl.cumsum(count, axis=0)
        tl.store(ends + start + place, before + total - count, mask=place < size)
        before += tl.sum(count, axis=0)
    tl.store(totals + row + tl.arange(0, 1), before)
