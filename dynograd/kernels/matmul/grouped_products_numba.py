"""The Numba half of `grouped_products_cpu`: a part of the work is a group of whole products."""

import numpy as np

from dynograd.kernels.build.addresses_numba import address, call, handle, word_at
from dynograd.kernels.build.compiling_numba import chunked
from dynograd.kernels.tiles.tile_products_numba import products32, products64

__all__ = ["functions", "handle", "products"]


def _make_products(real, result):
    scratch_size = result.scratch_size
    size = real().itemsize

    @chunked(key=real.__name__)
    def products(functions, a, b, table, groups, transposed_a, transposed_b, c, start, stop):
        """c = op(a) @ op(b) for the products that the groups start to stop have; see `ProductPlan`. Vectors come by handle."""
        at_a, at_b, at_c = address(a), address(b), address(c)
        most = 0
        for item in range(groups[start], groups[stop]):
            most = max(most, scratch_size(table[item, 3], table[item, 4], table[item, 5]))
        scratch = np.empty(most, real)
        for item in range(groups[start], groups[stop]):
            m, n, k = table[item, 3], table[item, 4], table[item, 5]
            if m > 0 and n > 0:
                call(word_at(functions), (
                    functions, transposed_a, transposed_b, m, n, k, at_a + table[item, 0] * size, m if transposed_a else k,
                    at_b + table[item, 1] * size, k if transposed_b else n, 0, 0, at_c + table[item, 2] * size, n, np.int64(scratch.ctypes.data),
                ))  # fmt: skip
        scratch[:1] = 0  # alive until here

    return products


products = {
    np.dtype(np.float32): _make_products(np.float32, products32),
    np.dtype(np.float64): _make_products(np.float64, products64),
}
functions = {np.dtype(np.float32): products32.functions, np.dtype(np.float64): products64.functions}
