"""Factorizations and solutions of batches of NumPy matrices: LAPACK through NumPy, and through its BLAS library where NumPy has none.

Kernels that can fail give `info` for each matrix (0 where all went well) beside their results; who wants an error asks `first_failure`.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

from dynograd.arrays import FLOATING_WARNINGS
from dynograd.kernels.build import blas

_SMALL = 4096  # numbers of a matrix whose triangle is kept
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def first_failure(info):
    """(the place of the first matrix that failed, its number), or None."""
    flat = info.reshape(-1)
    if not flat.any():
        return None
    place = int((flat != 0).argmax())
    return place, int(flat[place])


def _infos(x):
    return np.zeros(x.shape[:-2], np.int32)


# --- NumPy's calls of LAPACK, without what `numpy.linalg` does around them: that takes longer than a small matrix -------------


try:
    from numpy.linalg import _umath_linalg
except ImportError:
    _umath_linalg: Any = None  # type: ignore[no-redef]


_WIDE = {"f": "d", "d": "d", "F": "D", "D": "D"}
_NARROW = {"d": "f", "D": "F"}


def _at_once(name):
    """A call of LAPACK in double precision; it gives None where that fails, where results hold NaN, in a NumPy without this name."""
    function = getattr(_umath_linalg, name, None)

    def called(*operands):
        operand = operands[0]
        kind = operand.dtype.char
        if function is None or not operand.size:
            return None
        if kind in "fF":
            operands = [each.astype(_WIDE[kind]) for each in operands]
        try:
            result = function(*operands)
        except FLOATING_WARNINGS:
            return None
        first = result[0] if type(result) is tuple else result  # NaN throughout for a matrix that LAPACK cannot take
        probe = first.item(0) if operand.ndim == 2 and first.size else first.sum()
        if probe != probe:
            return None
        if kind not in "fF":
            return result
        if type(result) is tuple:
            return tuple([each.astype(_NARROW[each.dtype.char]) for each in result])
        return result.astype(_NARROW[result.dtype.char])

    return called


inverse_at_once, solve_at_once, factor_at_once = _at_once("inv"), _at_once("solve"), _at_once("cholesky_lo")
_svd_at_once = {True: _at_once("svd_f"), False: _at_once("svd_s")}
_eigh_at_once = {True: _at_once("eigh_up"), False: _at_once("eigh_lo")}
_determinant_at_once, _logarithm_at_once = _at_once("det"), _at_once("slogdet")
_values_at_once = _at_once("svd")
_reflections, _first_columns = _at_once("qr_r_raw"), _at_once("qr_reduced")


# --- solving -------------------------------------------------------------------------------------------------------------


def inverse(x):
    """(inverses, info): info is the place (from 1) of a zero on the diagonal of U."""
    info = _infos(x)
    result = inverse_at_once(x)
    if result is not None:
        return result, info
    try:
        return np.linalg.inv(x), info
    except np.linalg.LinAlgError:
        pass
    result = np.full(x.shape, np.inf, x.dtype)
    for place in np.ndindex(info.shape):
        try:
            result[place] = np.linalg.inv(x[place])
        except np.linalg.LinAlgError:
            info[place] = _zero_pivot(x[place])
    return result, info


def solve(a, b):
    """(x with a @ x = b, info) for matrices b; info as for `inverse`."""
    info = _infos(a)
    result = solve_at_once(a, b)
    if result is not None:
        return result, info
    try:
        return np.linalg.solve(a, b), info
    except np.linalg.LinAlgError:
        pass
    result = np.full(b.shape, np.inf, b.dtype)
    for place in np.ndindex(info.shape):
        try:
            result[place] = np.linalg.solve(a[place], b[place])
        except np.linalg.LinAlgError:
            info[place] = _zero_pivot(a[place])
    return result, info


def _zero_pivot(x):
    """The first zero on the diagonal of U, from 1."""
    zeros = np.diagonal(lu(x)[0]) == 0
    return int(zeros.argmax()) + 1 if zeros.any() else len(x)


@lru_cache
def _routine(name: str) -> Any:
    """A function of the BLAS library that NumPy uses, or None; and the type of its integers."""
    known = blas.library()
    if known is None:
        return None, None
    symbol = f"{known.prefix}{name}{known.suffix}"
    routine = getattr(ctypes.CDLL(known.path), symbol, None)
    return routine, ctypes.c_int64 if known.long else ctypes.c_int32


def solve_triangular(a, b, upper, unit):
    """x with a @ x = b, where only one triangle of `a` is read; a zero on its diagonal gives inf or NaN."""
    result = np.array(np.broadcast_to(b, (*a.shape[:-2], *b.shape[-2:])), order="C")
    rows, columns = b.shape[-2:]
    if not result.size:
        return result
    routine, integer = _routine(f"cblas_{_LETTERS[a.dtype.char]}trsm")
    if routine is None:
        return _substituted(a, result, upper, unit)
    a = np.ascontiguousarray(a)
    factor: Any = np.ones(1, a.dtype)
    real = {"f": ctypes.c_float, "d": ctypes.c_double}.get(a.dtype.char)
    alpha = ctypes.c_void_p(factor.ctypes.data) if real is None else real(1)
    for place in np.ndindex(a.shape[:-2]):
        matrix, into = a[place], result[place]
        routine(
            ctypes.c_int(101),  # rows after each other
            ctypes.c_int(141),  # the matrix stands on the left
            ctypes.c_int(121 if upper else 122),
            ctypes.c_int(111),  # not transposed
            ctypes.c_int(132 if unit else 131),
            integer(rows),
            integer(columns),
            alpha,
            ctypes.c_void_p(matrix.ctypes.data),
            integer(rows),
            ctypes.c_void_p(into.ctypes.data),
            integer(columns),
        )
    return result


def _substituted(a, result, upper, unit):
    """Row after row, all matrices at once, for a BLAS whose functions cannot be called."""
    size = a.shape[-1]
    for row in range(size - 1, -1, -1) if upper else range(size):
        known = slice(row + 1, size) if upper else slice(0, row)
        result[..., row : row + 1, :] -= a[..., row : row + 1, known] @ result[..., known, :]
        if not unit:
            result[..., row : row + 1, :] /= a[..., row : row + 1, row : row + 1]
    return result


# --- LU ------------------------------------------------------------------------------------------------------------------


def lu(x):
    """(L and U in one matrix, pivots from 1, info)."""
    rows, columns = x.shape[-2:]
    pivots = np.zeros((*x.shape[:-2], min(rows, columns)), np.int32)
    info = _infos(x)
    factors = np.array(x, order="C")
    if not factors.size:
        return factors, pivots, info
    routine, integer = _routine(f"{_LETTERS[x.dtype.char]}getrf_")
    for place in np.ndindex(info.shape):
        if routine is None:
            info[place] = _eliminated(factors[place], pivots[place])
            continue
        turned = np.array(factors[place], order="F")
        own = np.zeros(pivots.shape[-1], np.int64 if integer is ctypes.c_int64 else np.int32)
        m, n, failed = integer(rows), integer(columns), integer(0)
        routine(
            ctypes.byref(m),
            ctypes.byref(n),
            ctypes.c_void_p(turned.ctypes.data),
            ctypes.byref(m),
            ctypes.c_void_p(own.ctypes.data),
            ctypes.byref(failed),
        )
        factors[place], pivots[place], info[place] = turned, own, failed.value
    return factors, pivots, info


def _eliminated(x, pivots):
    """Gauss in place, with the largest element of each column as pivot; gives the first zero one, from 1."""
    failed = 0
    for step in range(len(pivots)):
        best = step + int(np.abs(x[step:, step]).argmax())
        pivots[step] = best + 1
        if best != step:
            x[[step, best]] = x[[best, step]]
        if x[step, step] == 0:
            failed = failed or step + 1
            continue
        x[step + 1 :, step] /= x[step, step]
        x[step + 1 :, step + 1 :] -= np.outer(x[step + 1 :, step], x[step, step + 1 :])
    return failed


def permutation(pivots, rows, dtype):
    """The matrices P with P @ L @ U = A, for the row exchanges `pivots`."""
    matrix = np.zeros((*pivots.shape[:-1], rows, rows), dtype)
    for place in np.ndindex(pivots.shape[:-1]):
        order = np.arange(rows)
        for step, other in enumerate(pivots[place]):
            order[[step, other - 1]] = order[[other - 1, step]]
        matrix[place][order, np.arange(rows)] = 1
    return matrix


# --- factorizations ------------------------------------------------------------------------------------------------------


def cholesky(x):
    """(lower triangles, info): info is the order of the first leading minor that is not positive definite."""
    info = _infos(x)
    factor = factor_at_once(x)
    if factor is not None:
        return factor, info
    try:
        return np.linalg.cholesky(x), info
    except np.linalg.LinAlgError:
        pass
    factor = np.tril(x)
    for place in np.ndindex(info.shape):
        low, high = 0, x.shape[-1] + 1
        while high - low > 1:
            middle = (low + high) // 2
            try:
                part = np.linalg.cholesky(x[place][:middle, :middle])
            except np.linalg.LinAlgError:
                high = middle
            else:
                low = middle
                factor[place][:middle, :middle] = part
        info[place] = high if high <= x.shape[-1] else 0
    return factor, info


def qr(x, complete):
    """(Q, R), computed in double precision."""
    rows, columns = x.shape[-2:]
    if x.size and (not complete or rows <= columns) and rows * columns <= _SMALL:
        turned = x.astype(_WIDE[x.dtype.char])
        factors = _reflections(turned)
        q = None if factors is None else _first_columns(turned, factors)
        if q is not None:
            r = (turned if q.shape[-1] == rows else turned[..., : q.shape[-1], :]).astype(x.dtype, order="C")
            below = _below_diagonal(*r.shape[-2:])
            if r.ndim == 2:
                np.putmask(r, below, 0)
            else:
                np.copyto(r, 0, where=below)
            return q.astype(x.dtype, order="C"), r
    q, r = np.linalg.qr(x, "complete" if complete else "reduced")
    return np.ascontiguousarray(q), np.ascontiguousarray(r)


@lru_cache(64)
def _below_diagonal(rows, columns):
    return np.tri(rows, columns, -1, bool)


def reflectors(x):
    """(R above and the vectors of reflections below the diagonal, their factors)."""
    turned, tau = np.linalg.qr(x, "raw")
    return np.ascontiguousarray(np.swapaxes(turned, -1, -2)), tau


def _tried(function, x, *options):
    """`function(x)`, or None where LAPACK does not converge for one of the matrices."""
    try:
        return function(x, *options)
    except np.linalg.LinAlgError:
        return None


def _failing(function, x, *options):
    """The place of the first matrix for which `function` does not converge."""
    for number, matrix in enumerate(x.reshape(-1, *x.shape[-2:])):
        if _tried(function, matrix, *options) is None:
            return number
    return 0


def svd(x, full):
    """(U, S, Vh), or the place of a matrix for which it does not converge."""
    factors = _svd_at_once[full](x)
    if factors is not None and isfinite(factors[1].sum()):
        return factors
    factors = _tried(np.linalg.svd, x, full)
    if factors is None or not np.isfinite(factors[1]).all():
        return _failing(np.linalg.svd, x) if factors is None else _not_finite(factors[1])
    return tuple(factors)


def singular_values(x):
    """The singular values in descending order, or the place of a matrix for which that does not converge."""
    values = _values_at_once(x)
    if values is not None and isfinite(values.sum()):
        return values
    values = _tried(lambda matrix: np.linalg.svd(matrix, compute_uv=False), x)
    if values is None or not np.isfinite(values).all():
        return _failing(np.linalg.svd, x) if values is None else _not_finite(values)
    return values


def _not_finite(values):
    return int((~np.isfinite(values).reshape(-1, values.shape[-1]).all(-1)).argmax())


def eigh(x, upper):
    """(eigenvalues in ascending order, eigenvectors) of Hermitian matrices of which one triangle is read; NaN for NaN."""
    pairs = _eigh_at_once[upper](x)
    if pairs is not None:
        return pairs
    pairs = _tried(np.linalg.eigh, x, "U" if upper else "L")
    if pairs is not None:
        return pairs[0], pairs[1]
    values, vectors = np.full(x.shape[:-1], np.nan, x.real.dtype), np.full(x.shape, np.nan, x.dtype)
    for place in np.ndindex(x.shape[:-2]):
        pairs = _tried(np.linalg.eigh, x[place], "U" if upper else "L")
        if pairs is not None:
            values[place], vectors[place] = pairs
    return values, vectors


def eig(x):
    """(eigenvalues, eigenvectors), complex."""
    kind = np.result_type(x.dtype, np.complex64)
    if not np.isfinite(x).all():
        return None
    values, vectors = np.linalg.eig(x)
    return values.astype(kind, copy=False), vectors.astype(kind, copy=False)


# --- numbers -------------------------------------------------------------------------------------------------------------


def determinant(x):
    result = _determinant_at_once(x)
    return np.asarray(np.linalg.det(x) if result is None else result, x.dtype)


def sign_and_logarithm(x):
    """(sign, log |det|)."""
    sign, logarithm = _logarithm_at_once(x) or np.linalg.slogdet(x)
    return np.asarray(sign, x.dtype), np.asarray(logarithm, x.real.dtype)


def _values(x, hermitian):
    """What the tolerance is compared with, largest first: singular values, or the sizes of eigenvalues."""
    if hermitian:
        return np.sort(np.abs(np.linalg.eigvalsh(x)), -1)[..., ::-1]
    return np.linalg.svd(x, compute_uv=False)


def _bound(x, values, atol, rtol):
    """max(atol, rtol * the largest value) for each matrix; by default rtol is the machine's precision times the larger size."""
    if rtol is None:
        default = max(x.shape[-2:]) * np.finfo(x.dtype).eps
        rtol = default if atol is None else np.where(np.asarray(atol) > 0, 0.0, default)
    largest = values[..., 0] if values.shape[-1] else np.zeros(values.shape[:-1])
    return np.maximum(0.0 if atol is None else atol, np.asarray(rtol) * largest)


def rank(x, atol, rtol, hermitian):
    """How many values are above the tolerance."""
    values = _values(x, hermitian)
    return np.asarray((values > _bound(x, values, atol, rtol)[..., None]).sum(-1), np.int64)


def pseudoinverse(x, atol, rtol, hermitian):
    """The inverse of what lies above the tolerance."""
    if not x.size:
        return np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        values, u = np.linalg.eigh(x)
        sizes = np.abs(values)
        bound = _bound(x, np.sort(sizes, -1)[..., ::-1], atol, rtol)
        vh = np.conj(np.swapaxes(u, -1, -2))
    else:
        u, values, vh = np.linalg.svd(x, False)
        sizes, bound = values, _bound(x, values, atol, rtol)
    kept = sizes > bound[..., None]
    factors = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(x.dtype)
    return np.matmul(np.conj(np.swapaxes(vh, -1, -2)) * factors[..., None, :], np.conj(np.swapaxes(u, -1, -2)))


def least_squares(a, b, rcond):
    """The x of least size among those with the least |a x - b|, for matrices b."""
    result = np.zeros((*a.shape[:-2], a.shape[-1], b.shape[-1]), a.dtype)
    for place in np.ndindex(a.shape[:-2]):
        if a[place].size:
            result[place] = np.linalg.lstsq(a[place], b[place], rcond)[0]
    return result


# Higham, The scaling and squaring method for the matrix exponential revisited, 2005: table 2.3 and algorithm 2.3.
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
    670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_PADE_RADIUS = 5.371920351148152


def exponential(x):
    """The exponentials of square matrices, computed in double precision."""
    wide = x.astype(np.result_type(x.dtype, np.float64))
    if not x.size:
        return wide.astype(x.dtype)
    size = np.abs(wide).sum(-2).max(-1)
    if not np.isfinite(size).all():
        wide = np.where(np.isfinite(size)[..., None, None], wide, 0)
    times = np.ceil(np.log2(np.maximum(np.where(np.isfinite(size), size, 0) / _PADE_RADIUS, 1))).astype(int)
    wide = wide / (2.0**times)[..., None, None]
    b = _PADE
    identity = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    two = wide @ wide
    four = two @ two
    six = two @ four
    u = wide @ (
        six @ (b[13] * six + b[11] * four + b[9] * two) + b[7] * six + b[5] * four + b[3] * two + b[1] * identity
    )
    v = six @ (b[12] * six + b[10] * four + b[8] * two) + b[6] * six + b[4] * four + b[2] * two + b[0] * identity
    power = np.linalg.solve(v - u, v + u)
    for step in range(int(times.max(initial=0))):
        power = np.where((times > step)[..., None, None], power @ power, power)
    power = np.where(np.isfinite(size)[..., None, None], power, np.nan)
    return power.astype(x.dtype, copy=False)
