"""Many matrix products of different sizes, by BLAS, on NumPy vectors of float32 and float64; threads take about as much work each."""

from __future__ import annotations

import numpy as np

from dynograd.arrays import buffers

_GROUPS = 64  # parts of the work, of about as many rows each


def grouped_products(a, b, plan, transposed_a, transposed_b):
    """The vector of all c of a `ProductPlan`; `transposed_a`: what lies there are the transposes (k, m) of the matrices a."""
    from dynograd.kernels.matmul import grouped_products_numba as loops

    result = (buffers.empty if plan.covers else buffers.zeros)((plan.sizes[2],), a.dtype)
    if (a.size, b.size) != plan.sizes[:2]:
        raise ValueError(f"grouped_products: vectors of {a.size} and {b.size} elements for {plan}")
    if len(plan.table) and result.size:
        groups = plan.kept("groups", lambda: plan.groups(_GROUPS))
        a, b = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
        loops.products[a.dtype](
            loops.functions[a.dtype](), loops.handle(a), loops.handle(b), plan.table, groups, transposed_a, transposed_b,
            loops.handle(result), count=len(groups) - 1, work=plan.work // 4,
        )  # fmt: skip
    return result
