"""Running sums, products, extremes and recurrences along one dim of (outer, n, inner) memory, on the GPU.

A program takes `ROWS` rows (side by side along `inner` where there is one) and goes through them in tiles of `BLOCK`, each scanned as
a whole and joined with what the tiles before gave. `REVERSE`: from the last element on. Few long rows are cut into segments: of
sums `carry` holds what stands before each; of extremes and logarithms `PHASE` 1 finds what each segment comes to, and 2 starts
from the segments before (0: rows are whole). All kernels compile in 0.1 to 0.5 s, which is why they stay Triton's where
sorting did not.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel

_SIZES = {"outer": "i32", "n": "i32", "inner": "i32", "blocks": "i32"}
_WIDE = ("n", "inner", "segment")  # with multiples of 16 rows are read in wide pieces


@triton.jit
def rows_of(program, outer, n, inner, blocks, INNER: tl.constexpr, ROWS: tl.constexpr):
    """(which rows there are, where the first element of each lies)."""
    if INNER:
        i = (program % blocks) * ROWS + tl.arange(0, ROWS)
        return i < inner, (program // blocks) * n * inner + i
    else:
        row = program * ROWS + tl.arange(0, ROWS)
        return row < outer, row * n


@triton.jit
def greater_of(value, place, other, where):
    """The greater of both, of equals the later; NaN is greater than all."""
    later = (other >= value) | (other != other)
    later = later & ((value == value) | (other != other))
    return tl.where(later, other, value), tl.where(later, where, place)


@triton.jit
def less_of(value, place, other, where):
    """The less of both, of equals the later; NaN is less than all."""
    later = (other <= value) | (other != other)
    later = later & ((value == value) | (other != other))
    return tl.where(later, other, value), tl.where(later, where, place)


@triton.jit
def logarithm_of(top, total, other, more):
    """(maximum, sum of exp(x - maximum)) of both; where the maximum is infinite, 0 stands for it in the sum."""
    highest = tl.maximum(top, other, propagate_nan=tl.PropagateNan.ALL)
    level = tl.where(tl.abs(highest) < float("inf"), highest, 0.0)
    return highest, total * tl.exp(near(top, highest) - level) + more * tl.exp(near(other, highest) - level)


@triton.jit
def near(top, highest):
    """A maximum as it counts beside `highest`: infinite ones are in the sums as they are."""
    return tl.where(tl.abs(top) < float("inf"), top, tl.where(tl.abs(highest) < float("inf"), float("-inf"), 0.0))


@triton.jit
def recurrence_of(value, factor, other, more):
    """r = other + more * r, behind r = value + factor * r."""
    return other + more * value, more * factor


@triton_kernel(
    variants=[
        {"x": "*fp32", "carry": "*fp32", "out": "*fp32", **_SIZES, "splits": "i32", "segment": "i32",
         "REVERSE": False, "OP": "sum", "CARRIED": True, "ACC": tl.float32, "INNER": False, "ROWS": 1, "BLOCK": 2048, "num_warps": 4},
        {"x": "*bf16", "carry": "*fp32", "out": "*bf16", **_SIZES, "splits": "i32", "segment": "i32",
         "REVERSE": False, "OP": "sum", "CARRIED": False, "ACC": tl.float32, "INNER": True, "ROWS": 64, "BLOCK": 32, "num_warps": 4},
        {"x": "*fp64", "carry": "*fp64", "out": "*fp64", **_SIZES, "splits": "i32", "segment": "i32",
         "REVERSE": False, "OP": "prod", "CARRIED": False, "ACC": tl.float64, "INNER": False, "ROWS": 1, "BLOCK": 1024, "num_warps": 4},
        {"x": "*i64", "carry": "*i64", "out": "*i64", **_SIZES, "splits": "i32", "segment": "i32",
         "REVERSE": False, "OP": "sum", "CARRIED": False, "ACC": tl.int64, "INNER": False, "ROWS": 8, "BLOCK": 128, "num_warps": 4},
    ],
    divisible=_WIDE,
)  # fmt: skip
def running(
    x, carry, out, outer, n, inner, blocks, splits, segment,
    REVERSE: tl.constexpr, OP: tl.constexpr, CARRIED: tl.constexpr, ACC: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum or product up to each place; `carry` (row, segment): where each segment starts (without `inner` only)."""
    split = tl.program_id(1).to(tl.int64)
    program = tl.program_id(0).to(tl.int64)
    alive, base = rows_of(program, outer, n, inner, blocks, INNER, ROWS)
    columns = tl.arange(0, BLOCK).to(tl.int64)
    last = columns == BLOCK - 1
    start = split * segment
    stop = tl.minimum(start + segment, n)
    if CARRIED:
        whole = tl.load(carry + (program * ROWS + tl.arange(0, ROWS)) * splits + split, alive, other=0).to(ACC)
    elif OP == "sum":
        whole = tl.zeros((ROWS,), ACC)
    else:
        whole = tl.zeros((ROWS,), ACC) + 1
    for c in range(start, stop, BLOCK):
        place = c + columns
        inside = alive[:, None] & (place < stop)[None, :]
        place = n - 1 - place if REVERSE else place
        at = base[:, None] + (place * inner if INNER else place)[None, :]
        if OP == "sum":
            value = tl.load(x + at, inside, other=0).to(ACC)
            value = tl.cumsum(value, 1) + whole[:, None]
        else:
            value = tl.load(x + at, inside, other=1).to(ACC)
            value = tl.cumprod(value, 1) * whole[:, None]
        tl.store(out + at, value, inside)
        whole = tl.sum(tl.where(last[None, :], value, tl.zeros((ROWS, BLOCK), ACC)), 1)


@triton.jit
def extremes_so_far(value, where, best, at_best, GREATEST: tl.constexpr):
    """The extremes along a tile of rows, where `best` stands before it: (values, places, the last values, the last places)."""
    start = tl.zeros(value.shape, value.dtype) + best[:, None]
    at_start = tl.zeros(value.shape, tl.int32) + at_best[:, None]
    if GREATEST:
        value, where = tl.associative_scan((value, where), 1, greater_of)
        value, where = greater_of(start, at_start, value, where)
    else:
        value, where = tl.associative_scan((value, where), 1, less_of)
        value, where = less_of(start, at_start, value, where)
    last = (tl.arange(0, value.shape[1]) == value.shape[1] - 1)[None, :]
    best = tl.sum(tl.where(last, value, tl.zeros(value.shape, value.dtype)), 1)
    return value, where, best, tl.sum(tl.where(last, where, 0), 1)


_CUT = {"splits": "i32", "segment": "i32", "TOPS": 128, "num_warps": 4}


@triton_kernel(
    variants=[
        {"x": "*fp32", "tops": "*fp32", "top_places": "*i32", "out": "*fp32", "places": "*i64", **_SIZES, **_CUT, "PHASE": phase,
         "FIRST": float("-inf"), "GREATEST": True, "ACC": tl.float32, "INNER": False, "ROWS": 1, "BLOCK": 1024}
        for phase in (0, 1, 2)
    ] + [
        {"x": "*i64", "tops": "*i64", "top_places": "*i64", "out": "*i64", "places": "*i64", **_SIZES, **_CUT, "PHASE": 0,
         "FIRST": (1 << 63) - 1, "GREATEST": False, "ACC": tl.int64, "INNER": True, "ROWS": 64, "BLOCK": 16},
    ],
    divisible=_WIDE,
)  # fmt: skip
def running_extreme(
    x, tops, top_places, out, places, outer, n, inner, blocks, splits, segment,
    FIRST: tl.constexpr, GREATEST: tl.constexpr, PHASE: tl.constexpr, TOPS: tl.constexpr, ACC: tl.constexpr,
    INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The greatest (or least) so far and where it stands; of equals the last, and NaN stays."""
    split = tl.program_id(1).to(tl.int64)
    program = tl.program_id(0).to(tl.int64)
    alive, base = rows_of(program, outer, n, inner, blocks, INNER, ROWS)
    columns = tl.arange(0, BLOCK)
    start = split * segment
    stop = tl.minimum(start + segment, n)
    best = tl.full((ROWS,), FIRST, ACC)
    at_best = tl.zeros((ROWS,), tl.int32)
    line = (program * ROWS + tl.arange(0, ROWS)) * splits
    if PHASE == 2:  # what is missing stands first, where it changes nothing
        for c in range(split - (split + TOPS - 1) // TOPS * TOPS, split, TOPS):
            s = c + tl.arange(0, TOPS)
            known = alive[:, None] & (s >= 0)[None, :]
            value = tl.load(tops + line[:, None] + s[None, :], known, other=0).to(ACC)
            value = tl.where(known, value, tl.full((ROWS, TOPS), FIRST, ACC))
            where = tl.load(top_places + line[:, None] + s[None, :], known, other=0)
            value, where, best, at_best = extremes_so_far(value, where, best, at_best, GREATEST)
    for c in range(start, stop, BLOCK):
        place = (c + columns).to(tl.int64)
        inside = alive[:, None] & (place < stop)[None, :]
        at = base[:, None] + (place * inner if INNER else place)[None, :]
        value = tl.load(x + at, inside, other=0).to(ACC)
        value = tl.where(inside, value, tl.full((ROWS, BLOCK), FIRST, ACC))
        # beyond the end the last place is repeated: also where all are as low as FIRST, the last of a segment is the last there is
        where = tl.zeros((ROWS, BLOCK), tl.int32) + tl.minimum(place, stop - 1).to(tl.int32)[None, :]
        value, where, best, at_best = extremes_so_far(value, where, best, at_best, GREATEST)
        if PHASE != 1:
            tl.store(out + at, value, inside)
            tl.store(places + at, where.to(tl.int64), inside)
    if PHASE == 1:
        tl.store(tops + line + split, best, alive)
        tl.store(top_places + line + split, at_best, alive)


@triton.jit
def logarithms_so_far(value, amount, top, total):
    """As `extremes_so_far`, of (maxima, sums of exp(x - maximum))."""
    start = tl.zeros(value.shape, value.dtype) + top[:, None]
    before = tl.zeros(value.shape, value.dtype) + total[:, None]
    value, amount = tl.associative_scan((value, amount), 1, logarithm_of)
    value, amount = logarithm_of(start, before, value, amount)
    last = (tl.arange(0, value.shape[1]) == value.shape[1] - 1)[None, :]
    top = tl.max(tl.where(last & (value == value), value, float("-inf")), 1)
    return value, amount, top, tl.sum(tl.where(last, amount, 0.0), 1)


@triton_kernel(
    variants=[
        {"x": "*fp32", "tops": "*fp32", "totals": "*fp32", "out": "*fp32", **_SIZES, **_CUT, "PHASE": phase, "ACC": tl.float32,
         "INNER": False, "ROWS": 1, "BLOCK": 1024}
        for phase in (0, 1, 2)
    ] + [
        {"x": "*fp64", "tops": "*fp64", "totals": "*fp64", "out": "*fp64", **_SIZES, **_CUT, "PHASE": 0, "ACC": tl.float64,
         "INNER": True, "ROWS": 64, "BLOCK": 8},
    ],
    divisible=_WIDE,
)  # fmt: skip
def running_logarithm(
    x, tops, totals, out, outer, n, inner, blocks, splits, segment,
    PHASE: tl.constexpr, TOPS: tl.constexpr, ACC: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """log of the sum of exp(x) up to each place."""
    split = tl.program_id(1).to(tl.int64)
    program = tl.program_id(0).to(tl.int64)
    alive, base = rows_of(program, outer, n, inner, blocks, INNER, ROWS)
    columns = tl.arange(0, BLOCK).to(tl.int64)
    start = split * segment
    stop = tl.minimum(start + segment, n)
    top = tl.full((ROWS,), float("-inf"), ACC)
    total = tl.zeros((ROWS,), ACC)
    line = (program * ROWS + tl.arange(0, ROWS)) * splits
    if PHASE == 2:
        for c in range(0, split, TOPS):
            s = c + tl.arange(0, TOPS)
            known = alive[:, None] & (s < split)[None, :]
            value = tl.load(tops + line[:, None] + s[None, :], known, other=float("-inf"))
            amount = tl.load(totals + line[:, None] + s[None, :], known, other=0)
            value, amount, top, total = logarithms_so_far(value, amount, top, total)
    for c in range(start, stop, BLOCK):
        place = c + columns
        inside = alive[:, None] & (place < stop)[None, :]
        at = base[:, None] + (place * inner if INNER else place)[None, :]
        value = tl.load(x + at, inside, other=float("-inf")).to(ACC)
        # An infinite or missing number is its own maximum and adds exp(+-inf) or NaN to a sum that has no level.
        amount = tl.where(tl.abs(value) < float("inf"), 1.0, tl.exp(value)).to(ACC)
        highest, amount, top, total = logarithms_so_far(value, amount, top, total)
        if PHASE != 1:
            level = tl.where(tl.abs(highest) < float("inf"), highest, 0.0)
            tl.store(out + at, tl.log(amount) + level, inside)
    if PHASE == 1:
        tl.store(tops + line + split, top, alive)
        tl.store(totals + line + split, total, alive)


@triton_kernel(
    variants=[
        {"x": "*fp32", "decay": "*fp32", "out": "*fp32", **_SIZES, "ACC": tl.float32, "INNER": False, "ROWS": 1, "BLOCK": 1024,
         "num_warps": 4},
    ],
    divisible=_WIDE,
)  # fmt: skip
def recurrence(
    x, decay, out, outer, n, inner, blocks,
    ACC: tl.constexpr, INNER: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """r[k] = x[k] + decay[k] * r[k + 1], from the end on."""
    alive, base = rows_of(tl.program_id(0).to(tl.int64), outer, n, inner, blocks, INNER, ROWS)
    columns = tl.arange(0, BLOCK).to(tl.int64)
    whole = tl.zeros((ROWS,), ACC)
    for c in range(0, n, BLOCK):
        place = c + columns
        inside = alive[:, None] & (place < n)[None, :]
        place = n - 1 - place
        at = base[:, None] + (place * inner if INNER else place)[None, :]
        value = tl.load(x + at, inside, other=0).to(ACC)
        factor = tl.load(decay + at, inside, other=0).to(ACC)
        value, factor = tl.associative_scan((value, factor), 1, recurrence_of)
        value = value + factor * whole[:, None]
        tl.store(out + at, value, inside)
        whole = tl.sum(tl.where((columns == BLOCK - 1)[None, :], value, 0.0), 1)
