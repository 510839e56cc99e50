"""Many arrays handled by one launch: kernels over a table of addresses.

`rows` has COLUMNS int64 numbers for each array: its address and those of what belongs to it, its size, whether its states are new.
`places` has two int32 numbers for each program: the row it works on, and which block of it.
"""

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.formula import math_triton

_FLOAT32 = {"rows": "*i64", "places": "*i32", "T": tl.float32, "ALIGNED": True, "BLOCK": 1024, "num_warps": 4}
_BFLOAT16 = {**_FLOAT32, "T": tl.bfloat16}
_FLOAT64 = {**_FLOAT32, "T": tl.float64}


@triton.jit
def part_of(rows, row, column: tl.constexpr, T: tl.constexpr, ALIGNED: tl.constexpr):
    """The address in a column, as a pointer; ALIGNED promises that it is a multiple of 16."""
    address = tl.load(rows + row * 8 + column).to(tl.pointer_type(T))
    if ALIGNED:
        address = tl.multiple_of(address, 16)
    return address


@triton.jit
def taken(at, exists, WHOLE: tl.constexpr):
    """The elements at these addresses, in float32 or float64. Of a WHOLE block all exist: without a mask memory is read in wide pieces."""
    if WHOLE:
        values = tl.load(at)
    else:
        values = tl.load(at, mask=exists, other=0.0)
    if values.dtype == tl.float64:
        return values
    else:
        return values.to(tl.float32)


@triton.jit
def put(at, value, exists, T: tl.constexpr, WHOLE: tl.constexpr):
    if WHOLE:
        tl.store(at, value.to(T))
    else:
        tl.store(at, value.to(T), mask=exists)


@triton.jit
def place_of(places, BLOCK: tl.constexpr):
    """The program's row, and the first of its elements."""
    row = tl.load(places + 2 * tl.program_id(0)).to(tl.int64)
    first = tl.load(places + 2 * tl.program_id(0) + 1).to(tl.int64) * BLOCK
    return row, first


@triton.jit
def _scaled(x, exists, by, T: tl.constexpr, WHOLE: tl.constexpr):
    put(x, taken(x, exists, WHOLE) * by, exists, T, WHOLE)


@triton.jit
def _bounded(x, exists, least, most, T: tl.constexpr, WHOLE: tl.constexpr):
    value = taken(x, exists, WHOLE)
    value = tl.where(value < least, least, value)
    put(x, tl.where(value > most, most, value), exists, T, WHOLE)


@triton.jit
def _unscaled(x, exists, by, overflow, T: tl.constexpr, WHOLE: tl.constexpr):
    value = taken(x, exists, WHOLE)
    bad = tl.max((math_triton.isfinite(value) == 0).to(tl.int32), axis=0)
    tl.store(overflow, 1.0, mask=bad != 0)
    put(x, value * by.to(value.dtype), exists, T, WHOLE)


@triton.jit
def _squares(x, exists, sums, WHOLE: tl.constexpr):
    value = taken(x, exists, WHOLE)
    tl.store(sums + tl.program_id(0), tl.sum(value * value, axis=0))


@triton_kernel(
    variants=[{**types, "sums": "*fp32"} for types in (_FLOAT32, _BFLOAT16)] + [{**_FLOAT64, "sums": "*fp64"}]
)
def square_blocks(rows, places, sums, T: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of squares of each block."""
    row, first = place_of(places, BLOCK)
    i = first + tl.arange(0, BLOCK)
    size = tl.load(rows + row * 8 + 6)
    x = part_of(rows, row, 0, T, ALIGNED) + i
    if first + BLOCK <= size:
        _squares(x, i < size, sums, True)
    else:
        _squares(x, i < size, sums, False)


@triton_kernel(
    variants=[
        {"sums": kind, "total": "*fp64", "count": "i32", "BLOCK": 4096, "num_warps": 8} for kind in ("*fp32", "*fp64")
    ]
)
def total_of(sums, total, count, BLOCK: tl.constexpr):
    """The sum of the blocks' sums, in float64, by one program: always in the same order."""
    i = tl.arange(0, BLOCK)
    result = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, count, BLOCK):
        result += tl.load(sums + start + i, mask=start + i < count, other=0.0).to(tl.float64)
    tl.store(total, tl.sum(result, axis=0))


@triton_kernel(
    variants=[
        {**types, "factor": kind, "LEAST": least}
        for types in (_FLOAT32, _BFLOAT16)
        for kind, least in (("fp32", False), ("*fp32", True))
    ]
    + [{**_FLOAT64, "factor": "fp64", "LEAST": False}]
)
def scale_blocks(
    rows, places, factor, T: tl.constexpr, LEAST: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr
):
    """Multiplies by a number, or by that at an address (LEAST), and then nothing is written where it is 1 or more."""
    row, first = place_of(places, BLOCK)
    i = first + tl.arange(0, BLOCK)
    size = tl.load(rows + row * 8 + 6)
    x = part_of(rows, row, 0, T, ALIGNED) + i
    if LEAST:
        by = tl.load(factor)
        if (by < 1.0) | (by != by):
            if first + BLOCK <= size:
                _scaled(x, i < size, by, T, True)
            else:
                _scaled(x, i < size, by, T, False)
    else:
        if first + BLOCK <= size:
            _scaled(x, i < size, factor, T, True)
        else:
            _scaled(x, i < size, factor, T, False)


@triton_kernel(
    variants=[{**types, "least": "fp32", "most": "fp32"} for types in (_FLOAT32, _BFLOAT16)]
    + [{**_FLOAT64, "least": "fp64", "most": "fp64"}]
)
def bound_blocks(rows, places, least, most, T: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """Moves what is outside to the nearer bound; NaN stays."""
    row, first = place_of(places, BLOCK)
    i = first + tl.arange(0, BLOCK)
    size = tl.load(rows + row * 8 + 6)
    x = part_of(rows, row, 0, T, ALIGNED) + i
    if first + BLOCK <= size:
        _bounded(x, i < size, least, most, T, True)
    else:
        _bounded(x, i < size, least, most, T, False)


@triton_kernel(
    variants=[{**types, "value": "fp32"} for types in (_FLOAT32, _BFLOAT16)] + [{**_FLOAT64, "value": "fp64"}]
)
def fill_blocks(rows, places, value, T: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    row, first = place_of(places, BLOCK)
    i = first + tl.arange(0, BLOCK)
    size = tl.load(rows + row * 8 + 6)
    x = part_of(rows, row, 0, T, ALIGNED) + i
    block = tl.zeros((BLOCK,), tl.float32) + value
    if first + BLOCK <= size:
        put(x, block, i < size, T, True)
    else:
        put(x, block, i < size, T, False)


@triton_kernel(
    variants=[{**types, "inverse": "*fp32", "overflow": "*fp32"} for types in (_FLOAT32, _BFLOAT16, _FLOAT64)]
)
def unscale_blocks(rows, places, inverse, overflow, T: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """Multiplies by the number at `inverse`; writes 1 to `overflow` when a gradient is not finite."""
    row, first = place_of(places, BLOCK)
    i = first + tl.arange(0, BLOCK)
    size = tl.load(rows + row * 8 + 6)
    x = part_of(rows, row, 0, T, ALIGNED) + i
    by = tl.load(inverse)
    if first + BLOCK <= size:
        _unscaled(x, i < size, by, overflow, T, True)
    else:
        _unscaled(x, i < size, by, overflow, T, False)


@triton_kernel(
    variants=[
        {
            "scale": "*fp32",
            "tracker": "*i32",
            "overflow": "*fp32",
            "growth": "fp32",
            "backoff": "fp32",
            "interval": "i32",
        }
        | {"num_warps": 1}
    ]
)
def update_scale(scale, tracker, overflow, growth, backoff, interval):
    """A GradScaler's scale after a step, by one program."""
    bad = tl.load(overflow) > 0.0
    now = tl.load(scale)
    count = tl.load(tracker) + 1
    grows = (count == interval) & (bad == 0)
    grown = now * growth
    grown = tl.where(tl.abs(grown) < float("inf"), grown, now)
    tl.store(scale, tl.where(bad, now * backoff, tl.where(grows, grown, now)))
    tl.store(tracker, tl.where(bad | grows, 0, count))
