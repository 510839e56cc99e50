"""Products of compressed rows with dense matrices: a program computes a tile of columns of one row, entry by entry."""

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel
from dynograd.kernels.index.scatters_triton import checked

_ROWS = dict(crow="*i64", col="*i64", fault="*i64", site="i32", columns="i32", width="i32")


@triton_kernel(
    variants=[
        dict(values="*fp32", dense="*fp32", out="*fp32", **_ROWS, ACC=tl.float32, COLS=128, num_warps=2),
        dict(values="*bf16", dense="*bf16", out="*bf16", **_ROWS, ACC=tl.float32, COLS=128, num_warps=2),
        dict(values="*fp64", dense="*fp64", out="*fp64", **_ROWS, ACC=tl.float64, COLS=128, num_warps=2),
    ]
)
def product(
    values, crow, col, dense, out, fault, site, columns, width, ACC: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """out[row] = the sum of values[i] * dense[col[i]] over the entries of the row."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLS + tl.arange(0, COLS)
    inside = column < width
    first = tl.load(crow + row)
    last = tl.load(crow + row + 1)
    total = tl.zeros([COLS], ACC)
    for place in range(first, last):
        chosen, usable = checked(tl.load(col + place), columns, True, fault, site, False)
        value = tl.load(values + place).to(ACC)
        result = tl.load(dense + chosen * width + column, mask=inside & usable, other=0)
        total += value * result.to(ACC)
    tl.store(out + row * width + column, total.to(out.dtype.element_ty), mask=inside)


@triton_kernel(
    variants=[
        dict(x="*fp32", y="*fp32", out="*fp32", **_ROWS, ACC=tl.float32, COLS=128, num_warps=2),
        dict(x="*bf16", y="*bf16", out="*bf16", **_ROWS, ACC=tl.float32, COLS=128, num_warps=2),
        dict(x="*fp64", y="*fp64", out="*fp64", **_ROWS, ACC=tl.float64, COLS=128, num_warps=2),
    ]
)
def sampled(x, y, crow, col, out, fault, site, columns, width, ACC: tl.constexpr, COLS: tl.constexpr):
    """out[i] = the product of x[row] and y[col[i]], for the entries of a row."""
    row = tl.program_id(0).to(tl.int64)
    first = tl.load(crow + row)
    last = tl.load(crow + row + 1)
    for place in range(first, last):
        chosen, usable = checked(tl.load(col + place), columns, True, fault, site, False)
        total = tl.zeros([COLS], ACC)
        for start in range(0, width, COLS):
            column = start + tl.arange(0, COLS)
            inside = (column < width) & usable
            left = tl.load(x + row * width + column, mask=inside, other=0)
            right = tl.load(y + chosen * width + column, mask=inside, other=0)
            total += left.to(ACC) * right.to(ACC)
        tl.store(out + place, tl.sum(total, 0).to(out.dtype.element_ty))
