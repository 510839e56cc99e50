"""Matrix products for compiled kernels: `gemm` calls NumPy's BLAS without the GIL, or plain loops where it cannot be called.

Use it in kernels made with `chunked(blas=True)`. Importing this loads Numba.
"""

from __future__ import annotations

import llvmlite.binding
import numpy as np
from numba import types
from numba.core import errors as numba_errors
from numba.extending import overload

from dynograd.kernels.build import blas
from dynograd.kernels.build.compiling_numba import PIPELINE, compiled

MACHINE = blas.spelling()
_LIBRARY = blas.library()
_LONG = np.int64 if _LIBRARY is None or _LIBRARY.long else np.int32


def _external(name, real):
    count = types.int64 if _LIBRARY.long else types.int32
    flag = types.int32
    arguments = (
        flag,
        flag,
        flag,
        count,
        count,
        count,
        real,
        types.uintp,
        count,
        types.uintp,
        count,
        real,
        types.uintp,
        count,
    )
    return types.ExternalFunction(_LIBRARY.symbol(name), types.void(*arguments))


if _LIBRARY is not None:
    llvmlite.binding.load_library_permanently(_LIBRARY.path)
    _sgemm = _external("cblas_sgemm", types.float32)
    _dgemm = _external("cblas_dgemm", types.float64)


def gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """c = alpha * op(a) @ op(b) + beta * c, row-major: c (m, n) with `ldc` elements from row to row.

    Args:
        a, b, c: arrays whose first element is the first of the matrix (views do); one dtype, float32 or float64. Only their
            addresses are used: the matrix is what the sizes and leading dimensions say.
    """
    raise NotImplementedError("gemm is for compiled kernels; numpy.matmul does this in Python")


@overload(gemm, jit_options={"error_model": "numpy", **PIPELINE})
def _gemm_overload(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    if _LIBRARY is None:
        return _gemm_by_loops
    if a.dtype == types.float32:
        return _gemm_float32
    if a.dtype == types.float64:
        return _gemm_float64
    raise numba_errors.TypingError(f"gemm: expected float32 or float64 arrays, got {a.dtype}")


def _gemm_float32(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    _sgemm(
        np.int32(101),
        np.int32(112 if transpose_a else 111),
        np.int32(112 if transpose_b else 111),
        _LONG(m),
        _LONG(n),
        _LONG(k),
        np.float32(alpha),
        a.ctypes.data,
        _LONG(lda),
        b.ctypes.data,
        _LONG(ldb),
        np.float32(beta),
        c.ctypes.data,
        _LONG(ldc),
    )


def _gemm_float64(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    _dgemm(
        np.int32(101),
        np.int32(112 if transpose_a else 111),
        np.int32(112 if transpose_b else 111),
        _LONG(m),
        _LONG(n),
        _LONG(k),
        np.float64(alpha),
        a.ctypes.data,
        _LONG(lda),
        b.ctypes.data,
        _LONG(ldb),
        np.float64(beta),
        c.ctypes.data,
        _LONG(ldc),
    )


def _gemm_by_loops(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    left = _elements(a, (k - 1) * lda + m if transpose_a else (m - 1) * lda + k)
    right = _elements(b, (n - 1) * ldb + k if transpose_b else (k - 1) * ldb + n)
    result = _elements(c, (m - 1) * ldc + n)
    for row in range(m):
        for column in range(n):
            total = result[row * ldc + column] * beta if beta != 0 else result.dtype.type(0)
            for inner in range(k):
                factor = left[inner * lda + row] if transpose_a else left[row * lda + inner]
                other = right[column * ldb + inner] if transpose_b else right[inner * ldb + column]
                total += alpha * factor * other
            result[row * ldc + column] = total


@compiled
def _elements(array, count):
    """The memory from the array's first element on, as a flat array."""
    return np.lib.stride_tricks.as_strided(array, (count,), (array.itemsize,))
