"""Many arrays handled by one launch: kernels over a table of addresses.

`rows` has COLUMNS int64 numbers for each array: its address and those of what belongs to it, its size, whether its states are new.
`places` has two int32 numbers for each program: the row it works on, and which block of it.
"""

import triton
import triton.language as tl

from dynograd.kernels import math_triton
from dynograd.kernels.launching_cuda import triton_kernel

__all__ = ["bound_blocks", "fill_blocks", "part_of", "scale_blocks", "square_blocks", "unscale_blocks"]

_FLOAT32 = {"rows": "*i64", "places": "*i32", "T": tl.float32, "ALIGNED": True, "BLOCK": 1024, "num_warps": 4}
_BFLOAT16 = {**_FLOAT32, "T": tl.bfloat16}
_FLOAT64 = {**_FLOAT32, "T": tl.float64}


@triton.jit
def part_of(rows, row, column: tl.constexpr, T: tl.constexpr, ALIGNED: tl.constexpr):
    """The address in a column, as a pointer; ALIGNED promises that it is a multiple of 16."""
    address = tl.load(rows + row * 8 + column)
    if ALIGNED:
        address = tl.multiple_of(address, 16)
    return address.to(tl.pointer_type(T))


@triton.jit
def _elements(rows, row, places, BLOCK: tl.constexpr):
    """Which elements of its row the program has, and which of them exist."""
    size = tl.load(rows + row * 8 + 6)
    i = tl.load(places + 2 * tl.program_id(0) + 1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return i, i < size


@triton_kernel(variants=[{**one, "sums": "*fp32"} for one in (_FLOAT32, _BFLOAT16)] + [{**_FLOAT64, "sums": "*fp64"}])
def square_blocks(rows, places, sums, T: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of squares of each block."""
    row = tl.load(places + 2 * tl.program_id(0)).to(tl.int64)
    i, exists = _elements(rows, row, places, BLOCK)
    x = tl.load(part_of(rows, row, 0, T, ALIGNED) + i, mask=exists, other=0.0).to(sums.dtype.element_ty)
    tl.store(sums + tl.program_id(0), tl.sum(x * x, axis=0))


@triton_kernel(
    variants=[
        {"sums": kind, "total": "*fp64", "count": "i32", "BLOCK": 1024, "num_warps": 4} for kind in ("*fp32", "*fp64")
    ]
)
def total_of(sums, total, count, BLOCK: tl.constexpr):
    """The sum of the blocks' sums, in float64, by one program: always in the same order."""
    i = tl.arange(0, BLOCK)
    found = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, count, BLOCK):
        found += tl.load(sums + start + i, mask=start + i < count, other=0.0).to(tl.float64)
    tl.store(total, tl.sum(found, axis=0))


@triton_kernel(
    variants=[
        {**one, "factor": kind, "LEAST": least}
        for one in (_FLOAT32, _BFLOAT16)
        for kind, least in (("fp32", False), ("*fp32", True))
    ]
    + [{**_FLOAT64, "factor": "fp64", "LEAST": False}]
)
def scale_blocks(
    rows, places, factor, T: tl.constexpr, LEAST: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr
):
    """Multiplies by a number, or by that at an address (LEAST), and then nothing is written where it is 1 or more."""
    row = tl.load(places + 2 * tl.program_id(0)).to(tl.int64)
    i, exists = _elements(rows, row, places, BLOCK)
    by = factor
    if LEAST:
        by = tl.load(factor)
        exists = exists & ((by < 1.0) | (by != by))
    x = part_of(rows, row, 0, T, ALIGNED) + i
    value = tl.load(x, mask=exists, other=0.0)
    if value.dtype == tl.float64:
        tl.store(x, value * by, mask=exists)
    else:
        tl.store(x, (value.to(tl.float32) * by).to(T), mask=exists)


@triton_kernel(
    variants=[{**one, "least": "fp32", "most": "fp32"} for one in (_FLOAT32, _BFLOAT16)]
    + [{**_FLOAT64, "least": "fp64", "most": "fp64"}]
)
def bound_blocks(rows, places, least, most, T: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """Moves what is outside to the nearer bound; NaN stays."""
    row = tl.load(places + 2 * tl.program_id(0)).to(tl.int64)
    i, exists = _elements(rows, row, places, BLOCK)
    x = part_of(rows, row, 0, T, ALIGNED) + i
    value = tl.load(x, mask=exists, other=0.0)
    if value.dtype != tl.float64:
        value = value.to(tl.float32)
    value = tl.where(value < least, least, value)
    value = tl.where(value > most, most, value)
    tl.store(x, value.to(T), mask=exists)


@triton_kernel(variants=[{**one, "value": "fp32"} for one in (_FLOAT32, _BFLOAT16)] + [{**_FLOAT64, "value": "fp64"}])
def fill_blocks(rows, places, value, T: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.load(places + 2 * tl.program_id(0)).to(tl.int64)
    i, exists = _elements(rows, row, places, BLOCK)
    tl.store(part_of(rows, row, 0, T, ALIGNED) + i, (tl.zeros((BLOCK,), tl.float32) + value).to(T), mask=exists)


@triton_kernel(variants=[{**one, "inverse": "*fp32", "found": "*fp32"} for one in (_FLOAT32, _BFLOAT16, _FLOAT64)])
def unscale_blocks(rows, places, inverse, found, T: tl.constexpr, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    """Multiplies by the number at `inverse`; writes 1 to `found` when a gradient is not finite."""
    row = tl.load(places + 2 * tl.program_id(0)).to(tl.int64)
    i, exists = _elements(rows, row, places, BLOCK)
    x = part_of(rows, row, 0, T, ALIGNED) + i
    value = tl.load(x, mask=exists, other=0.0)
    by = tl.load(inverse)
    if value.dtype == tl.float64:
        by = by.to(tl.float64)
    else:
        value = value.to(tl.float32)
    bad = tl.max((math_triton.isfinite(value) == 0).to(tl.int32), axis=0)
    tl.store(found, 1.0, mask=bad != 0)
    tl.store(x, (value * by).to(T), mask=exists)
