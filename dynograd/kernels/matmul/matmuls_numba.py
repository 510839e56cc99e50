"""The Numba half of `matmuls_cpu`: batches of matrix products in blocks, and products with vectors. Arrays come by handle."""

import numpy as np

from dynograd.kernels.build.addresses_numba import address, call, handle, vector32, vector64, word_at
from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.formula.math_numba import maximum
from dynograd.kernels.formula.normal_numba import normal_gate, normal_gate_slope
from dynograd.kernels.tiles.tile_products_numba import COLUMNS, ROWS, products32, products64

__all__ = [
    "COLUMNS",
    "GELU",
    "GELU_RULE",
    "NOTHING",
    "RELU",
    "RELU_RULE",
    "ROWS",
    "SUM",
    "functions",
    "handle",
    "products",
    "products_with_ends",
    "vector_columns",
    "vector_rows",
]

NOTHING, RELU, RELU_RULE, GELU, GELU_RULE, SUM = range(6)
"""What becomes of a product's result c beside another matrix: nothing; c = relu(c); c = 0 where `other` is at most 0, as the backward of relu has it;
other = gelu(c); c = c times the slope of gelu at `other`; c = c + other.
"""


@compiled(inline=True)
def _end(end, c, other, zero):
    """A row of c and of the other matrix."""
    if end == RELU:
        for j in range(c.size):
            c[j] = maximum(c[j], zero)
    elif end == RELU_RULE:
        for j in range(c.size):
            c[j] = zero if other[j] <= zero else c[j]
    elif end == GELU:
        for j in range(c.size):
            other[j] = normal_gate(c[j])
    elif end == GELU_RULE:
        for j in range(c.size):
            c[j] = c[j] * normal_gate_slope(other[j])
    else:
        for j in range(c.size):
            c[j] += other[j]


def _make_products(real, result, vector, with_ends):
    scratch_size = result.scratch_size
    zero, size = real(0), real().itemsize

    @chunked(key=f"{real.__name__}{' with ends' if with_ends else ''}")
    def products(
        functions, m, n, k, block_m, block_n, inner,
        a, a_outer, a_inner, transpose_a, lda,
        b, b_outer, b_inner, transpose_b, ldb,
        begin, begin_outer, begin_inner, begin_row,
        c, c_outer, c_inner, ldc, end, other, other_row, start, stop,
    ):  # fmt: skip
        """c = begin + op(a) @ op(b), items start to stop of outer x inner x blocks of rows x blocks of columns; strides in elements.

        `end` says what becomes of c while it is in the cache, where the kernel is one with ends: see `NOTHING`.
        """
        scratch = np.empty(scratch_size(min(m, block_m), min(n, block_n), k), real)
        at_a, at_b, at_c = address(a), address(b), address(c)
        at_begin = address(begin) if begin != 0 else 0
        blocks_m, blocks_n = (m + block_m - 1) // block_m, (n + block_n - 1) // block_n
        for item in range(start, stop):
            which, block = item // (blocks_m * blocks_n), item % (blocks_m * blocks_n)
            first, second = which // inner, which % inner
            top, left = block // blocks_n * block_m, block % blocks_n * block_n
            from_a = at_a + (first * a_outer + second * a_inner + (top if transpose_a else top * lda)) * size
            from_b = at_b + (first * b_outer + second * b_inner + (left * ldb if transpose_b else left)) * size
            from_begin = 0
            if begin != 0:
                from_begin = at_begin + (first * begin_outer + second * begin_inner + top * begin_row + left) * size
            to = at_c + (first * c_outer + second * c_inner + top * ldc + left) * size
            call(word_at(functions), (
                functions, transpose_a, transpose_b, min(block_m, m - top), min(block_n, n - left), k,
                from_a, lda, from_b, ldb, from_begin, begin_row, to, ldc, np.int64(scratch.ctypes.data),
            ))  # fmt: skip
            if with_ends:
                count = min(block_n, n - left)
                for row in range(min(block_m, m - top)):
                    beside = to + row * ldc * size
                    if other != 0:
                        beside = address(other) + ((top + row) * other_row + left) * size
                    _end(end, vector(to + row * ldc * size, count), vector(beside, count), zero)
        scratch[0] = 0  # alive until here

    return products


def _make_vector_rows(real, vector):
    zero, size = real(0), real().itemsize

    @chunked(key=real.__name__)
    def vector_rows(a, a_outer, a_row, x, x_outer, begin, c, rows, k, start, stop):
        """c[o, r] = begin[r] + a[o, r] . x[o]: rows that lie in one piece, no `begin` where it is 0. Items are all rows of all o."""
        for item in range(start, stop):
            outer, row = item // rows, item % rows
            element = vector(address(a) + (outer * a_outer + row * a_row) * size, k)
            factors = vector(address(x) + outer * x_outer * size, k)
            total = zero
            for i in range(k):
                total += element[i] * factors[i]
            if begin != 0:
                total += vector(address(begin) + row * size, 1)[0]
            vector(address(c) + item * size, 1)[0] = total

    return vector_rows


def _make_vector_columns(real, vector):
    zero, size = real(0), real().itemsize

    @chunked(noalias=True, key=real.__name__)
    def vector_columns(a, a_step, x, x_step, begin, c, k, width, n, start, stop):
        """c = begin + x @ a where rows of a (k, n) lie in one piece, no `begin` where it is 0. Items are blocks of `width` columns."""
        factors = vector(address(x), (k - 1) * x_step + 1)
        for item in range(start, stop):
            left = item * width
            count = min(width, n - left)
            total = vector(address(c) + left * size, count)
            if begin != 0:
                total[:] = vector(address(begin) + left * size, count)
            else:
                total[:] = zero
            i = 0
            while i + 4 <= k:  # four rows at a time: the sums are read and written once for them
                at = address(a) + (i * a_step + left) * size
                first, second = vector(at, count), vector(at + a_step * size, count)
                three, four = (
                    vector(at + 2 * a_step * size, count),
                    vector(at + 3 * a_step * size, count),
                )
                w1, w2, w3, w4 = (
                    factors[i * x_step],
                    factors[(i + 1) * x_step],
                    factors[(i + 2) * x_step],
                    factors[(i + 3) * x_step],
                )
                for j in range(count):
                    total[j] += (first[j] * w1 + second[j] * w2) + (three[j] * w3 + four[j] * w4)
                i += 4
            while i < k:
                first = vector(address(a) + (i * a_step + left) * size, count)
                w1 = factors[i * x_step]
                for j in range(count):
                    total[j] += first[j] * w1
                i += 1

    return vector_columns


products = {
    np.dtype(np.float32): _make_products(np.float32, products32, vector32, False),
    np.dtype(np.float64): _make_products(np.float64, products64, vector64, False),
}
products_with_ends = {
    np.dtype(np.float32): _make_products(np.float32, products32, vector32, True),
    np.dtype(np.float64): _make_products(np.float64, products64, vector64, True),
}
vector_rows = {
    np.dtype(np.float32): _make_vector_rows(np.float32, vector32),
    np.dtype(np.float64): _make_vector_rows(np.float64, vector64),
}
vector_columns = {
    np.dtype(np.float32): _make_vector_columns(np.float32, vector32),
    np.dtype(np.float64): _make_vector_columns(np.float64, vector64),
}


def functions(kind):
    """What `products` of this dtype is given first."""
    return (products32 if kind.itemsize == 4 else products64).functions()
