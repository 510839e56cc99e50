"""Matrix products from register tiles of our own: `gemm_invariant`, whose bits do not depend on how many rows or columns there are.

Every element of the result is one chain of fused multiply-adds over k in ascending order, whatever tile it falls into. A tile of
rows by vectors of 64 bytes stays in registers; LLVM cuts the vectors to what the processor has. Importing this loads Numba.
"""

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import errors as numba_errors
from numba.extending import intrinsic, overload

from dynograd.kernels.compiling_numba import compiled

__all__ = ["gemm_invariant"]

_INT = ir.IntType(64)
_VECTOR_BYTES = 64


def _make_tile(element, rows, vectors):
    """`tile(a, a_row, a_step, b, b_step, c, c_row, k)`: c += a @ b on a tile of `rows` by `vectors` vectors, in `k` steps.

    Addresses and strides in bytes: element (p, i) of a lies at a + p * a_row + i * a_step, row i of b at b + i * b_step, row p of c at
    c + p * c_row.
    """
    lanes = _VECTOR_BYTES // (4 if element == ir.FloatType() else 8)
    vector = ir.VectorType(element, lanes)

    @intrinsic
    def tile(typing_context, a, a_row, a_step, b, b_step, c, c_row, k):
        signature = types.void(*(types.int64,) * 8)

        def generate(context, builder, signature, arguments):
            a, a_row, a_step, b, b_step, c, c_row, k = arguments
            name = f"llvm.fmuladd.v{lanes}{'f32' if lanes == 16 else 'f64'}"
            multiply_add = builder.module.globals.get(name) or ir.Function(
                builder.module, ir.FunctionType(vector, [vector] * 3), name
            )

            def times(value, number):
                return builder.mul(value, ir.Constant(_INT, number))

            def load(address, kind):
                found = builder.load(builder.inttoptr(address, kind.as_pointer()))
                found.align = 4 if lanes == 16 else 8
                return found

            places = [
                [
                    builder.add(builder.add(c, times(c_row, p)), ir.Constant(_INT, q * _VECTOR_BYTES))
                    for q in range(vectors)
                ]
                for p in range(rows)
            ]
            begin = [[load(places[p][q], vector) for q in range(vectors)] for p in range(rows)]
            a_rows = [times(a_row, p) for p in range(rows)]
            before = builder.block
            body, done = builder.append_basic_block("steps"), builder.append_basic_block("done")
            builder.cbranch(builder.icmp_signed(">", k, ir.Constant(_INT, 0)), body, done)
            builder.position_at_end(body)
            step, left, right = builder.phi(_INT), builder.phi(_INT), builder.phi(_INT)
            sums = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            for phi, first in ((step, ir.Constant(_INT, 0)), (left, a), (right, b)):
                phi.add_incoming(first, before)
            undefined = ir.Constant(vector, ir.Undefined)
            first_lane = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            columns = [load(builder.add(right, ir.Constant(_INT, q * _VECTOR_BYTES)), vector) for q in range(vectors)]
            made = []
            for p in range(rows):
                one = load(builder.add(left, a_rows[p]), element)
                spread = builder.insert_element(undefined, one, ir.Constant(ir.IntType(32), 0))
                spread = builder.shuffle_vector(spread, undefined, first_lane)
                made.append([builder.call(multiply_add, [spread, columns[q], sums[p][q]]) for q in range(vectors)])
            next_step = builder.add(step, ir.Constant(_INT, 1))
            for phi, following in (
                (step, next_step),
                (left, builder.add(left, a_step)),
                (right, builder.add(right, b_step)),
            ):
                phi.add_incoming(following, body)
            for p in range(rows):
                for q in range(vectors):
                    sums[p][q].add_incoming(begin[p][q], before)
                    sums[p][q].add_incoming(made[p][q], body)
            builder.cbranch(builder.icmp_signed("<", next_step, k), body, done)
            builder.position_at_end(done)
            results = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            for p in range(rows):
                for q in range(vectors):
                    results[p][q].add_incoming(begin[p][q], before)
                    results[p][q].add_incoming(made[p][q], body)
                    stored = builder.store(results[p][q], builder.inttoptr(places[p][q], vector.as_pointer()))
                    stored.align = 4 if lanes == 16 else 8
            return context.get_dummy_value()

        return signature, generate

    return tile


def _make_pointer(kind):
    @intrinsic
    def pointer(typing_context, address):
        """The address as a pointer, for `carray`."""

        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(types.int64), generate

    return pointer


# Of 32 registers of 64 bytes, 24 hold the sums of 12 rows by 2 vectors; of 16 with 32 bytes, 12 those of 6 rows by 1 vector.
_LARGE = (12, 4, 2) if llvmlite.binding.get_host_cpu_features().get("avx512f") else (6, 2, 1)
_STEPS = 256  # a panel of b, 256 rows by 128 bytes, stays in the level-1 cache
_STRIPE = 384  # 384 rows by 256 steps of a, 384 KiB, stay in the level-2 cache


def _make_product(kind, element):
    size = kind.bitwidth // 8
    rows, some, vectors = _LARGE
    width = vectors * _VECTOR_BYTES // size
    large, middle, small = (_make_tile(element, count, vectors) for count in (rows, some, 1))
    pointer = _make_pointer(kind)
    real = np.float32 if size == 4 else np.float64
    zero = real(0)

    @compiled(noalias=True, key=f"{kind} {_LARGE}")
    def pack_rows(a, transpose, lda, count, steps, packed):
        """Rows of a in groups of `rows`, each step's elements side by side; those left over follow row by row."""
        whole = count - count % rows
        row_stride, step_stride = (1, lda) if transpose else (lda, 1)
        for first in range(0, whole, rows):
            target = first * steps
            for p in range(rows):
                source = (first + p) * row_stride
                for i in range(steps):
                    packed[target + i * rows + p] = a[source + i * step_stride]
        for p in range(whole, count):
            for i in range(steps):
                packed[p * steps + i] = a[p * row_stride + i * step_stride]

    @compiled(noalias=True, key=f"{kind} {_LARGE}")
    def pack_columns(b, transpose, ldb, columns, steps, packed):
        """`width` columns of b step by step; zeros where there are fewer."""
        if columns < width:
            packed[: steps * width] = zero
        if transpose:
            for j in range(columns):
                for i in range(steps):
                    packed[i * width + j] = b[j * ldb + i]
        else:
            for i in range(steps):
                for j in range(columns):
                    packed[i * width + j] = b[i * ldb + j]

    @compiled(key=f"{kind} {_LARGE}")
    def tiles(packed_rows, count, packed, b_step, c, c_step, steps):
        """One panel of columns under a stripe of rows."""
        whole = count - count % rows
        for first in range(0, whole, rows):
            large(
                packed_rows + first * steps * size, size, rows * size, packed, b_step, c + first * c_step, c_step, steps
            )
        done = whole
        while done + some <= count:
            middle(
                packed_rows + done * steps * size, steps * size, size, packed, b_step, c + done * c_step, c_step, steps
            )
            done += some
        while done < count:
            small(
                packed_rows + done * steps * size, steps * size, size, packed, b_step, c + done * c_step, c_step, steps
            )
            done += 1

    @compiled(key=f"{kind} {_LARGE}")
    def add_product(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc):
        """c += op(a) @ op(b), all given by address."""
        stripe = min(m, _STRIPE)
        most = min(k, _STEPS)
        packed_rows = np.empty(stripe * most, real)
        panel = np.empty(most * width, real)
        edge = np.empty(stripe * width, real)
        for top in range(0, m, _STRIPE):
            count = min(_STRIPE, m - top)
            for start in range(0, k, _STEPS):
                steps = min(_STEPS, k - start)
                corner = a + (start * lda + top if transpose_a else top * lda + start) * size
                reach = (steps - 1) * lda + count if transpose_a else (count - 1) * lda + steps
                pack_rows(carray(pointer(corner), (reach,)), transpose_a, lda, count, steps, packed_rows)
                for left in range(0, n, width):
                    columns = min(width, n - left)
                    corner = b + (left * ldb + start if transpose_b else start * ldb + left) * size
                    target = c + (top * ldc + left) * size
                    if (
                        columns == width and not transpose_b and count < 4 * rows
                    ):  # packing would cost more than it saves
                        tiles(packed_rows.ctypes.data, count, corner, ldb * size, target, ldc * size, steps)
                        continue
                    reach = (columns - 1) * ldb + steps if transpose_b else (steps - 1) * ldb + columns
                    pack_columns(carray(pointer(corner), (reach,)), transpose_b, ldb, columns, steps, panel)
                    if columns == width:
                        tiles(
                            packed_rows.ctypes.data, count, panel.ctypes.data, width * size, target, ldc * size, steps
                        )
                        continue
                    result = carray(pointer(target), ((count - 1) * ldc + columns,))
                    for p in range(count):
                        for j in range(columns):
                            edge[p * width + j] = result[p * ldc + j]
                        for j in range(columns, width):
                            edge[p * width + j] = zero
                    tiles(
                        packed_rows.ctypes.data,
                        count,
                        panel.ctypes.data,
                        width * size,
                        edge.ctypes.data,
                        width * size,
                        steps,
                    )
                    for p in range(count):
                        for j in range(columns):
                            result[p * ldc + j] = edge[p * width + j]

    @compiled(key=f"{kind} {_LARGE}")
    def product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        if m <= 0 or n <= 0:
            return
        result = carray(pointer(c), ((m - 1) * ldc + n,))
        if beta == 0:
            for p in range(m):
                for j in range(n):
                    result[p * ldc + j] = zero
        if alpha == 1 and (beta == 0 or beta == 1):
            add_product(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, c, ldc)
            return
        apart = np.zeros(m * n, real)
        add_product(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, apart.ctypes.data, n)
        for p in range(m):
            for j in range(n):
                result[p * ldc + j] = result[p * ldc + j] * beta + apart[p * n + j] * alpha

    return product


_product32 = _make_product(types.float32, ir.FloatType())
_product64 = _make_product(types.float64, ir.DoubleType())


def gemm_invariant(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """`blas_numba.gemm` with bits of each row and column of c that depend on nothing but that row of op(a) and column of op(b).

    In compiled kernels only. About three quarters of BLAS's speed on large matrices.
    """
    raise NotImplementedError("gemm_invariant is for compiled kernels")


@overload(gemm_invariant, jit_options={"error_model": "numpy"})
def _gemm_invariant_overload(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    if a.dtype == types.float32:

        def invariant(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
            _product32(
                bool(transpose_a), bool(transpose_b), m, n, k, np.float32(alpha), np.int64(a.ctypes.data), lda,
                np.int64(b.ctypes.data), ldb, np.float32(beta), np.int64(c.ctypes.data), ldc,
            )  # fmt: skip

    elif a.dtype == types.float64:

        def invariant(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
            _product64(
                bool(transpose_a), bool(transpose_b), m, n, k, np.float64(alpha), np.int64(a.ctypes.data), lda,
                np.int64(b.ctypes.data), ldb, np.float64(beta), np.int64(c.ctypes.data), ldc,
            )  # fmt: skip

    else:
        raise numba_errors.TypingError(f"gemm_invariant: expected float32 or float64 arrays, got {a.dtype}")
    return invariant
