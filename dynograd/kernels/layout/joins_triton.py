"""Several arrays put one after the other by one kernel."""

from __future__ import annotations

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel

_ARRAYS = {f"x{n}": "*i32" for n in range(8)} | {f"w{n}": "i32" for n in range(8)} | {f"s{n}": "i64" for n in range(8)}


@triton_kernel(
    variants=[
        dict(_ARRAYS, out="*i32", count="i32", tiles="i32", rows="i64", width="i64", ROWS=8, COLS=128, num_warps=4)
    ]
)
def join(
    out, x0, x1, x2, x3, x4, x5, x6, x7, w0, w1, w2, w3, w4, w5, w6, w7, s0, s1, s2, s3, s4, s5, s6, s7, count, tiles, rows, width,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Line r of out is line r of each array: of x0 with w0 numbers from place s0 on, of x1, ...; one program a tile of one array."""
    number = tl.program_id(0) % count
    tile = tl.program_id(0) // count
    x, own, start = x0, w0, s0
    if number == 1:
        x, own, start = x1, w1, s1
    if number == 2:
        x, own, start = x2, w2, s2
    if number == 3:
        x, own, start = x3, w3, s3
    if number == 4:
        x, own, start = x4, w4, s4
    if number == 5:
        x, own, start = x5, w5, s5
    if number == 6:
        x, own, start = x6, w6, s6
    if number == 7:
        x, own, start = x7, w7, s7
    column = (tile % tiles) * COLS + tl.arange(0, COLS)[None, :]
    row = (tile // tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (row < rows) & (column < own)
    tl.store(out + row * width + start + column, tl.load(x + row * own + column, mask=inside, other=0), mask=inside)
