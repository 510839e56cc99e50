"""NumPy's BLAS from compiled code, and the number of its threads while our pool runs."""

import numpy as np
import pytest

from dynograd.kernels.build import blas, blas_numba
from dynograd.kernels.build.compiling_numba import chunked, compiled


@chunked(blas=True)
def product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, start, stop):
    blas_numba.gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


@pytest.mark.parametrize("kind, tolerance", [(np.float32, 1e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_gemm(kind, tolerance, transpose_a, transpose_b, loops):
    m, n, k = 5, 7, 3
    a, b, c = (np.random.rand(*shape).astype(kind) for shape in ((m, k), (k, n), (m, n)))
    expected = 0.5 * a.astype(np.float64) @ b + 2.0 * c
    left, right = np.ascontiguousarray(a.T if transpose_a else a), np.ascontiguousarray(b.T if transpose_b else b)
    arguments = (transpose_a, transpose_b, m, n, k, 0.5, left, left.shape[1], right, right.shape[1], 2.0, c, n)
    if loops:
        compiled(blas_numba._gemm_by_loops)(*arguments)
    else:
        product(*arguments, count=1, work=0)
    np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance)


def test_beta_zero_ignores_what_was_there():
    a = np.eye(4, dtype=np.float32)
    for call in (lambda *args: product(*args, count=1, work=0), compiled(blas_numba._gemm_by_loops)):
        c = np.full((4, 4), np.nan, np.float32)
        call(False, False, 4, 4, 4, 1.0, a, 4, a, 4, 0.0, c, 4)
        assert np.array_equal(c, a)


def test_the_users_number_of_threads_comes_back():
    known = blas.library()
    if known is None or known.set_threads is None:
        pytest.skip("this NumPy's BLAS does not tell its number of threads")
    before = known.get_threads()
    known.set_threads(2)
    try:
        with blas.one_thread:
            assert known.get_threads() == 1
            with blas.one_thread:
                assert known.get_threads() == 1
            assert known.get_threads() == 1
        assert known.get_threads() == 2
        with pytest.raises(ZeroDivisionError), blas.one_thread:
            raise ZeroDivisionError
        assert known.get_threads() == 2
    finally:
        known.set_threads(before)


def test_without_a_library_there_are_loops(monkeypatch):
    monkeypatch.setattr(blas, "_found", [None])
    assert blas.spelling() == "no blas"
    with blas.one_thread:
        pass
    monkeypatch.setattr(blas_numba, "_LIBRARY", None)
    assert blas_numba._gemm_overload(*[None] * 13) is blas_numba._gemm_by_loops
