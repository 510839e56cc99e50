"""Medians of sorted rows, and elements picked one from each row, on the GPU."""

from __future__ import annotations

import triton.language as tl

from dynograd.kernels.launching_cuda import triton_kernel

__all__ = ["median_of_sorted", "picked"]


@triton_kernel(
    variants=[
        {"rows": "*fp32", "order": "*i64", "values": "*fp32", "places": "*i64", "n": "i32", "IGNORE_NAN": True, "BLOCK": 1024,
         "num_warps": 4},
        {"rows": "*i64", "order": "*i64", "values": "*i64", "places": "*i64", "n": "i32", "IGNORE_NAN": False, "BLOCK": 1024,
         "num_warps": 4},
        {"rows": "*bf16", "order": "*i64", "values": "*bf16", "places": "*i64", "n": "i32", "IGNORE_NAN": False, "BLOCK": 1024,
         "num_warps": 4},
    ]
)  # fmt: skip
def median_of_sorted(rows, order, values, places, n, IGNORE_NAN: tl.constexpr, BLOCK: tl.constexpr):
    """The lower median of a row sorted with NaN last, and where its first equal stood; the first NaN unless `IGNORE_NAN`."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.zeros((BLOCK,), tl.int64)
    for c in range(0, n, BLOCK):
        place = c + tl.arange(0, BLOCK)
        value = tl.load(rows + row * n + place, place < n, other=0)
        if rows.dtype.element_ty.is_floating() and rows.dtype.element_ty.primitive_bitwidth < 32:
            value = value.to(tl.float32)
        lanes += ((value != value) & (place < n)).to(tl.int64)
    missing = tl.sum(lanes, 0)
    if IGNORE_NAN:
        wanted = tl.maximum(n - missing - 1, 0) // 2
    else:
        wanted = tl.where(missing > 0, n - missing, (n - 1) // 2)
    found = tl.load(rows + row * n + wanted)
    tl.store(values + row, found)
    if rows.dtype.element_ty.is_floating() and rows.dtype.element_ty.primitive_bitwidth < 32:
        found = found.to(tl.float32)
    first = tl.zeros((BLOCK,), tl.int64) + wanted
    for c in range(0, wanted, BLOCK):
        place = c + tl.arange(0, BLOCK)
        value = tl.load(rows + row * n + place, place < wanted, other=0)
        if rows.dtype.element_ty.is_floating() and rows.dtype.element_ty.primitive_bitwidth < 32:
            value = value.to(tl.float32)
        first = tl.minimum(first, tl.where((place < wanted) & (value == found), place, wanted))
    tl.store(places + row, tl.load(order + row * n + tl.min(first, 0)))


@triton_kernel(
    variants=[
        {"rows": "*fp32", "order": "*i64", "best": "*i64", "values": "*fp32", "places": "*i64", "count": "i32", "n": "i32",
         "BLOCK": 128, "num_warps": 4},
    ]
)  # fmt: skip
def picked(rows, order, best, values, places, count, n, BLOCK: tl.constexpr):
    """The element at `best` of each sorted row, and where it stood."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    alive = row < count
    at = row * n + tl.load(best + row, alive, other=0)
    tl.store(values + row, tl.load(rows + at, alive), alive)
    tl.store(places + row, tl.load(order + at, alive, other=0), alive)
