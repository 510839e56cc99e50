"""Sums that undo windows and runs, on the GPU; each element of the result is summed by one thread, so that results repeat."""

from __future__ import annotations

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.layout.creation_triton import elements

_RUNS = dict(starts="*i64", counts="*i64", size="i32", length="i32", inner="i32", tiles="i32")


@triton_kernel(
    variants=[
        dict(_RUNS, g="*bf16", out="*fp32", COLS=128, num_warps=4),
        dict(_RUNS, g="*i64", out="*i64", COLS=1, num_warps=1),
    ]
)
def sum_runs(g, starts, counts, out, size, length, inner, tiles, COLS: tl.constexpr):
    """out[o, i] = the sum of g[o, starts[i]], ... , as many as counts[i]."""
    run = tl.program_id(0) // tiles
    column = (tl.program_id(0) % tiles) * COLS + tl.arange(0, COLS)
    outer = run // size
    start, count = tl.load(starts + run % size), tl.load(counts + run % size)
    total = tl.zeros([COLS], out.dtype.element_ty)
    line = (outer.to(tl.int64) * length + start) * inner
    for number in range(count):
        total += tl.load(g + line + number * inner + column, mask=column < inner, other=0).to(total.dtype)
    tl.store(out + run.to(tl.int64) * inner + column, total, mask=column < inner)


_WINDOWS = dict(
    length="i32",
    count="i32",
    inner="i32",
    size="i32",
    step="i32",
    most="i32",
    total="i32",
    BIG=False,
    BLOCK=1024,
    num_warps=4,
)


@triton_kernel(
    variants=[
        dict(_WINDOWS, g="*fp32", out="*fp32"),
        dict(_WINDOWS, g="*bf16", out="*fp32"),
        dict(_WINDOWS, g="*i64", out="*i64"),
    ]
)
def sum_windows(g, out, length, count, inner, size, step, most, total, BIG: tl.constexpr, BLOCK: tl.constexpr):
    """out (outer, length, inner): the sum over the windows that hold a place; g is (outer, count, inner, size)."""
    e = elements(BLOCK, BIG)
    column = e % inner
    place = e // inner % length
    outer = (e // inner // length).to(tl.int64)
    last = tl.minimum(place // step, count - 1)
    result = tl.zeros([BLOCK], out.dtype.element_ty)
    for number in range(most):
        window = last - number
        within = place - window * step
        valid = (e < total) & (window >= 0) & (within < size)
        result += tl.load(g + ((outer * count + window) * inner + column) * size + within, mask=valid, other=0).to(
            result.dtype
        )
    tl.store(out + e, result, mask=e < total)
