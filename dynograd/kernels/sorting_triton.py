"""Sorting on the GPU: rows that fit a block by bitonic networks, longer ones by radix; and selection.

Elements are compared as whole numbers, made of their bits so that -0 equals 0, all NaN are equal and the largest, and
descending order is the ascending order of the complement. A key of up to 32 bits and its place make one 64-bit number: all are
different, so that equals keep their order in any network. 64-bit keys are sorted by their lower half, then by their upper half.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.launching_cuda import triton_kernel

_LAST = tl.constexpr(0x7FFFFFFFFFFFFFFF)


@triton.jit
def ordered(x, infinity, KIND: tl.constexpr, WIDTH: tl.constexpr, DESCENDING: tl.constexpr):
    """The bits of elements as int64 that stand in the order of the elements. KIND: 0 signed, 1 unsigned, 2 floating."""
    key = x.to(tl.int64)
    if KIND == 1 and WIDTH < 64:
        key = key & ((1 << WIDTH) - 1)
    if KIND == 1 and WIDTH == 64:
        key = key ^ (-0x7FFFFFFFFFFFFFFF - 1)
    if KIND == 2:
        if WIDTH == 64:
            size = key & 0x7FFFFFFFFFFFFFFF
            flipped = key ^ 0x7FFFFFFFFFFFFFFF
            largest = tl.full([1], 0x7FFFFFFFFFFFFFFF, tl.int64)
        else:
            size = key & ((1 << (WIDTH - 1)) - 1)
            flipped = key ^ ((1 << (WIDTH - 1)) - 1)
            largest = tl.full([1], (1 << (WIDTH - 1)) - 1, tl.int64)
        key = tl.where(size == 0, 0, tl.where(key < 0, flipped, key))
        key = tl.where(size > infinity, largest, key)
    if DESCENDING:
        key = -1 - key
    return key


_ROW = dict(x="*i32", values="*i32", index="*i64", rows="i32", size="i32", wanted="i32", infinity="i64")


@triton_kernel(
    variants=[
        dict(**_ROW, KIND=2, WIDTH=32, DESCENDING=False, VALUES=True, ROWS=4, BLOCK=256, num_warps=4),
        dict(**_ROW, KIND=2, WIDTH=32, DESCENDING=True, VALUES=True, ROWS=1, BLOCK=1024, num_warps=4),
        dict(
            _ROW,
            x="*i64",
            values="*i64",
            KIND=0,
            WIDTH=64,
            DESCENDING=False,
            VALUES=True,
            ROWS=1,
            BLOCK=1024,
            num_warps=4,
        ),
    ]
)
def sort_rows(
    x, values, index, rows, size, wanted, infinity, KIND: tl.constexpr, WIDTH: tl.constexpr, DESCENDING: tl.constexpr,
    VALUES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The first `wanted` elements of each sorted row, and where they stood."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    place = tl.arange(0, BLOCK)[None, :]
    start = row.to(tl.int64) * size
    inside = (row < rows) & (place < size)
    bits = tl.load(x + start + place, mask=inside, other=0)
    key = ordered(bits, infinity, KIND, WIDTH, DESCENDING)
    if WIDTH == 64:
        low = (key & 0xFFFFFFFF) - 0x80000000
        packed = tl.sort(tl.where(inside, low * 4294967296 + place, _LAST))
        found = packed & 0xFFFF
        again = tl.load(x + start + found, mask=(row < rows) & (found < size) & (place < size), other=0)
        high = ordered(again, infinity, KIND, WIDTH, DESCENDING) >> 32
        packed = tl.sort(tl.where(inside, high * 4294967296 + place * 65536 + found, _LAST))
        found = packed & 0xFFFF
    else:
        packed = tl.sort(tl.where(inside, key * 4294967296 + place, _LAST))
        found = packed & 0xFFFFFFFF
    keep = (row < rows) & (place < wanted)
    out = row.to(tl.int64) * wanted + place
    tl.store(index + out, found, mask=keep)
    if VALUES:
        tl.store(values + out, tl.load(x + start + found, mask=keep, other=0), mask=keep)


_TILE = dict(x="*i32", packed="*i64", size="i32", tiles="i32", wanted="i32", infinity="i64")


@triton_kernel(
    variants=[
        dict(**_TILE, KIND=2, WIDTH=32, DESCENDING=True, PACKED=False, BLOCK=1024, num_warps=4),
        dict(_TILE, x="*i64", KIND=2, WIDTH=32, DESCENDING=True, PACKED=True, BLOCK=1024, num_warps=4),
    ]
)
def top_of_tiles(
    x, packed, size, tiles, wanted, infinity, KIND: tl.constexpr, WIDTH: tl.constexpr, DESCENDING: tl.constexpr,
    PACKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The first `wanted` of each tile of a row, as keys with places; PACKED: `x` holds such already."""
    row, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    place = tile * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    given = tl.load(x + row.to(tl.int64) * size + place, mask=inside, other=0)
    if PACKED:
        key = given
    else:
        key = ordered(given, infinity, KIND, WIDTH, DESCENDING) * 4294967296 + place
    found = tl.sort(tl.where(inside, key, _LAST))
    number = tl.arange(0, BLOCK)
    tl.store(packed + tl.program_id(0).to(tl.int64) * wanted + number, found, mask=number < wanted)


@triton_kernel(
    variants=[
        dict(
            x="*i32",
            packed="*i64",
            values="*i32",
            index="*i64",
            size="i32",
            wanted="i32",
            total="i64",
            BLOCK=1024,
            num_warps=4,
        )
    ]
)
def unpack_top(x, packed, values, index, size, wanted, total, BLOCK: tl.constexpr):
    """Values and places of what `top_of_tiles` has found."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < total
    found = tl.load(packed + place, mask=inside, other=0) & 0xFFFFFFFF
    tl.store(index + place, found, mask=inside)
    tl.store(values + place, tl.load(x + place // wanted * size + found, mask=inside, other=0), mask=inside)


# --- radix ---------------------------------------------------------------------------------------------------------------


@triton_kernel(
    variants=[
        dict(
            x="*i32",
            keys="*i32",
            infinity="i64",
            total="i64",
            KIND=2,
            WIDTH=32,
            DESCENDING=False,
            BLOCK=1024,
            num_warps=4,
        ),
        dict(
            x="*i64",
            keys="*i64",
            infinity="i64",
            total="i64",
            KIND=0,
            WIDTH=64,
            DESCENDING=True,
            BLOCK=1024,
            num_warps=4,
        ),
    ]
)
def radix_keys(
    x, keys, infinity, total, KIND: tl.constexpr, WIDTH: tl.constexpr, DESCENDING: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Keys whose bits, read without a sign, stand in the order of the elements."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < total
    key = ordered(tl.load(x + place, mask=inside, other=0), infinity, KIND, WIDTH, DESCENDING)
    if WIDTH == 64:
        key = key ^ (-0x7FFFFFFFFFFFFFFF - 1)
    else:
        if KIND != 1:
            key = key + (1 << (WIDTH - 1))
        elif DESCENDING:
            key = key + (1 << WIDTH)
    tl.store(keys + place, key.to(keys.dtype.element_ty), mask=inside)


@triton_kernel(
    variants=[
        dict(keys="*i32", counts="*i32", size="i32", tiles="i32", shift="i32", BLOCK=1024, num_warps=4),
        dict(keys="*i64", counts="*i32", size="i32", tiles="i32", shift="i32", BLOCK=1024, num_warps=4),
    ]
)
def radix_counts(keys, counts, size, tiles, shift, BLOCK: tl.constexpr):
    """How many elements of a tile have each digit: counts (rows, 16, tiles)."""
    row, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    place = tile * BLOCK + tl.arange(0, BLOCK)
    digit = (tl.load(keys + row.to(tl.int64) * size + place, mask=place < size, other=0) >> shift).to(tl.int32) & 15
    digit = tl.where(place < size, digit, 16)
    digits = tl.arange(0, 16)
    found = tl.sum((digit[:, None] == digits[None, :]).to(tl.int32), axis=0)
    tl.store(counts + (row.to(tl.int64) * 16 + digits) * tiles + tile, found)


_MOVE = dict(places="*i32", moved="*i32", index="*i64", counts="*i32", size="i32", tiles="i32", shift="i32")


@triton_kernel(
    variants=[
        dict(keys="*i32", sorted_keys="*i32", **_MOVE, FIRST=False, LAST=False, BLOCK=1024, num_warps=8),
        dict(keys="*i64", sorted_keys="*i64", **_MOVE, FIRST=False, LAST=True, BLOCK=1024, num_warps=8),
    ]
)
def radix_move(
    keys, sorted_keys, places, moved, index, counts, size, tiles, shift, FIRST: tl.constexpr, LAST: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Each element of a tile goes behind those of smaller digits, of earlier tiles, and of earlier places in its tile."""
    row, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    start = row.to(tl.int64) * size
    place = tile * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    key = tl.load(keys + start + place, mask=inside, other=0)
    digit = tl.where(inside, (key >> shift).to(tl.int32) & 15, 16)
    mine = (digit[:, None] == tl.arange(0, 16)[None, :]).to(tl.int32)
    rank = tl.sum(tl.cumsum(mine, axis=0) * mine, axis=1) - 1
    base = tl.load(counts + (row.to(tl.int64) * 16 + digit) * tiles + tile, mask=inside, other=0)
    target = start + base + rank
    if FIRST:
        held = place
    else:
        held = tl.load(places + start + place, mask=inside, other=0)
    if LAST:
        tl.store(index + target, held.to(tl.int64), mask=inside)
    else:
        tl.store(sorted_keys + target, key, mask=inside)
        tl.store(moved + target, held, mask=inside)


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


# --- selection in sorted rows --------------------------------------------------------------------------------------------


_KTH = dict(order="*i64", index="*i64", rows="i32", size="i32", k="i32", steps="i32", infinity="i64")


@triton_kernel(
    variants=[
        dict(x="*i32", values="*i32", **_KTH, KIND=2, WIDTH=32, BLOCK=128, num_warps=4),
        dict(x="*i64", values="*i64", **_KTH, KIND=0, WIDTH=64, BLOCK=128, num_warps=4),
    ]
)
def kth_of_sorted(
    x, values, order, index, rows, size, k, steps, infinity, KIND: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The k-th element of each row, and the first place where one like it stands; `order` sorts the rows."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    start = row.to(tl.int64) * size
    found = tl.load(order + start + k, mask=inside, other=0)
    wanted = ordered(tl.load(x + start + found, mask=inside, other=0), infinity, KIND, WIDTH, False)
    first = tl.zeros([BLOCK], tl.int32)
    last = tl.full([BLOCK], 0, tl.int32) + k
    for _ in range(steps):
        middle = (first + last) >> 1
        place = tl.load(order + start + middle, mask=inside, other=0)
        key = ordered(tl.load(x + start + place, mask=inside, other=0), infinity, KIND, WIDTH, False)
        less = key < wanted
        first = tl.where(less, middle + 1, first)
        last = tl.where(less, last, middle)
    found = tl.load(order + start + last, mask=inside, other=0)
    tl.store(index + row, found, mask=inside)
    tl.store(values + row, tl.load(x + start + found, mask=inside, other=0), mask=inside)
