"""Counted and patterned new arrays on the GPU."""

from __future__ import annotations

import triton
import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel


@triton.jit
def elements(BLOCK: tl.constexpr, BIG: tl.constexpr):
    """The numbers of the elements of this program; in 32 bits unless BIG, because division takes ten times as long in 64."""
    if BIG:
        e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    else:
        e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return e


@triton_kernel(
    variants=[
        dict(out="*i64", start="i64", step="i64", total="i64", BLOCK=1024, num_warps=4),
        dict(out="*fp32", start="i64", step="i64", total="i64", BLOCK=1024, num_warps=4),
    ]
)
def count_up(out, start, step, total, BLOCK: tl.constexpr):
    """start, start + step, ... in whole numbers."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + e, (e * step + start).to(out.dtype.element_ty), mask=e < total)


@triton_kernel(
    variants=[
        dict(out="*fp32", start="fp64", step="fp64", end="fp64", total="i64", ENDS=True, BLOCK=1024, num_warps=4),
        dict(out="*bf16", start="fp64", step="fp64", end="fp64", total="i64", ENDS=False, BLOCK=1024, num_warps=4),
    ],
    exact=True,
)
def count_up_in_float64(out, start, step, end, total, ENDS: tl.constexpr, BLOCK: tl.constexpr):
    """start, start + step, ...; ENDS: from the middle on counted down from `end`, the last one."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = e.to(tl.float64) * step + start
    if ENDS:
        value = tl.where(e < total // 2, value, end - (total - 1 - e).to(tl.float64) * step)
    if out.dtype.element_ty == tl.bfloat16 or out.dtype.element_ty == tl.float16:
        value = value.to(tl.float32)
    tl.store(out + e, value.to(out.dtype.element_ty), mask=e < total)


_TRIANGLE = dict(x="*i32", out="*i32", rows="i32", columns="i32", diagonal="i32", total="i64", BLOCK=1024, num_warps=4)


@triton_kernel(variants=[dict(_TRIANGLE, LOWER=True, BIG=False), dict(_TRIANGLE, LOWER=False, BIG=True)])
def triangle(x, out, rows, columns, diagonal, total, LOWER: tl.constexpr, BIG: tl.constexpr, BLOCK: tl.constexpr):
    """The elements on one side of a diagonal of matrices, zeros on the other."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < total
    if BIG:
        line = e // columns
        column = e - line * columns
        row = line % rows
    else:
        small = e.to(tl.int32)
        line = small // columns
        column = small - line * columns
        row = line % rows
    if LOWER:
        kept = column <= row + diagonal
    else:
        kept = column >= row + diagonal
    tl.store(out + e, tl.load(x + e, mask=inside & kept, other=0), mask=inside)
