"""The Numba half of `grouped_products_cpu`: a part of the work is a group of whole products."""

from dynograd.kernels.build.compiling_numba import chunked
from dynograd.kernels.tiles.tile_products_numba import gemm_invariant


@chunked
def products(a, b, table, groups, transposed_a, transposed_b, result, start, stop):
    """c = op(a) @ op(b) for the products that the groups start to stop have; see `ProductPlan`."""
    for item in range(groups[start], groups[stop]):
        m, n, k = table[item, 3], table[item, 4], table[item, 5]
        at = table[item, 2]
        if m == 0 or n == 0:
            continue
        if k == 0:
            result[at : at + m * n] = 0
            continue
        gemm_invariant(
            transposed_a, transposed_b, m, n, k, 1.0, a[table[item, 0] :], m if transposed_a else k, b[table[item, 1] :],
            k if transposed_b else n, 0.0, result[at:], n,
        )  # fmt: skip
