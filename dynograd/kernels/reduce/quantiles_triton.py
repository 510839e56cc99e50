"""Elements picked one from each sorted row, on the GPU."""

from __future__ import annotations

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel


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
