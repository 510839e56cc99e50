"""Masks and counts that are written and never read from elsewhere, on the GPU."""

from __future__ import annotations

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel


@triton_kernel(variants=[{"out": "*i64", "count": "i32", "BLOCK": 1024, "num_warps": 4}])
def counting(out, count, BLOCK: tl.constexpr):
    """0, 1, 2, ..."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, place, place < count)


@triton_kernel(variants=[{"out": "*i1", "count": "i32", "columns": "i32", "BLOCK": 1024, "num_warps": 4}])
def causal(out, count, columns, BLOCK: tl.constexpr):
    """Whether the column is not behind the row."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, place % columns <= place // columns, place < count)


@triton_kernel(
    variants=[
        {
            "labels": "*i64",
            "named": "*i1",
            "places": "*i64",
            "other": "*i1",
            "columns": "i32",
            "BLOCK": 128,
            "num_warps": 4,
        }
    ]
)
def multilabel(labels, named, places, other, columns, BLOCK: tl.constexpr):
    """A row: which entries stand before the first negative one, them, and which classes they do not name."""
    row = tl.program_id(0).to(tl.int64) * columns
    c = tl.arange(0, BLOCK)
    label = tl.load(labels + row + c, c < columns, other=-1).to(tl.int64)
    end = tl.min(tl.where(label < 0, c, BLOCK), 0)
    inside = c < tl.minimum(end, columns)
    tl.store(named + row + c, inside, c < columns)
    tl.store(places + row + c, tl.where(inside, label, 0), c < columns)
    missing = c >= 0
    for place in range(tl.minimum(end, columns)):
        missing = missing & (c != tl.load(labels + row + place))
    tl.store(other + row + c, missing, c < columns)
