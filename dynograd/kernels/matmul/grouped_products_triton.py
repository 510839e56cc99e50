"""Many matrix products of different sizes in Triton's language: a program for each tile of each product."""

import triton.language as tl

from dynograd.kernels.build.launching_cuda import triton_kernel

_SHAPE = dict(table="*i64", tiles="*i64", TRANSPOSED_A=False, TRANSPOSED_B=True, num_warps=4)


@triton_kernel(
    variants=[
        dict(_SHAPE, a="*fp32", b="*fp32", result="*fp32", PRECISION="ieee", BM=64, BN=64, BK=16),
        dict(_SHAPE, a="*fp32", b="*fp32", result="*fp32", PRECISION="tf32", TRANSPOSED_A=True, BM=64, BN=64, BK=32),
        dict(_SHAPE, a="*fp64", b="*fp64", result="*fp64", PRECISION="ieee", BM=32, BN=32, BK=16),
    ]
)
def products(
    a, b, result, table, tiles, TRANSPOSED_A: tl.constexpr, TRANSPOSED_B: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """c = op(a) @ op(b), a tile of one product for each program; `tiles` says which, `table` where its matrices lie."""
    place = tl.program_id(0).to(tl.int64) * 3
    entry = table + tl.load(tiles + place) * 6
    row, column = tl.load(tiles + place + 1), tl.load(tiles + place + 2)
    m, n, k = tl.load(entry + 3), tl.load(entry + 4), tl.load(entry + 5)
    a += tl.load(entry)
    b += tl.load(entry + 1)
    result += tl.load(entry + 2)
    om, on = row * BM + tl.arange(0, BM).to(tl.int64), column * BN + tl.arange(0, BN).to(tl.int64)
    ok = tl.arange(0, BK).to(tl.int64)
    ACC: tl.constexpr = tl.float64 if a.dtype.element_ty == tl.float64 else tl.float32
    total = tl.zeros((BM, BN), ACC)
    for first in range(0, k, BK):
        inner = first + ok
        held_a = (om[:, None] < m) & (inner[None, :] < k)
        held_b = (inner[:, None] < k) & (on[None, :] < n)
        if TRANSPOSED_A:
            left = tl.load(a + inner[None, :] * m + om[:, None], mask=held_a, other=0.0)
        else:
            left = tl.load(a + om[:, None] * k + inner[None, :], mask=held_a, other=0.0)
        if TRANSPOSED_B:
            right = tl.load(b + on[None, :] * k + inner[:, None], mask=held_b, other=0.0)
        else:
            right = tl.load(b + inner[:, None] * n + on[None, :], mask=held_b, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION, out_dtype=ACC)
    valid = (om[:, None] < m) & (on[None, :] < n)
    tl.store(result + om[:, None] * n + on[None, :], total.to(result.dtype.element_ty), mask=valid)
