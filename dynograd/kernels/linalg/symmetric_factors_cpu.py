"""Factors of symmetric and Hermitian matrices that need not be positive definite, as LAPACK's sytf2 and sytrs (hetf2, hetrs) have them.

NumPy offers none of these. One matrix after another, a column (or two) at a time, each with one product of vectors for what lies below and
to the right. Source: Bunch, Kaufman, Some stable methods for calculating inertia and solving symmetric linear systems, 1977.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# The growth that one column may cause is that of two, halved.
_ALPHA = (1 + 17**0.5) / 8


def bunch_kaufman(x: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    """(L below D's diagonal in one matrix, exchanges, info) of the lower triangles of (..., n, n).

    Exchanges count from 1, those of blocks of two are negative; info is the place of a zero on D's diagonal, or 0.
    """
    packed = np.tril(x)
    pivots = np.zeros(x.shape[:-1], np.int32)
    info = np.zeros(x.shape[:-2], np.int32)
    for place in np.ndindex(info.shape):
        info[place] = _factor(packed[place], pivots[place], hermitian and x.dtype.kind == "c")
    return np.tril(packed), pivots, info


def _size(values: Any) -> Any:
    """LAPACK's measure of numbers: of complex ones, the sizes of both parts together."""
    return np.abs(values.real) + np.abs(values.imag) if values.dtype.kind == "c" else np.abs(values)


def _factor(a: Any, pivots: Any, hermitian: bool) -> int:
    rows, info, k = len(a), 0, 0
    while k < rows:
        own = float(abs(a[k, k].real) if hermitian else _size(a[k, k]))
        below = _size(a[k + 1 :, k])
        far = k + 1 + int(below.argmax()) if k + 1 < rows else k
        largest = float(below.max()) if k + 1 < rows else 0.0
        step, chosen = 1, k
        if max(own, largest) == 0 or own != own:
            info = info or k + 1
            if hermitian:
                a[k, k] = a[k, k].real
            pivots[k] = k + 1
            k += 1
            continue
        if own < _ALPHA * largest:
            beside = max(_most(_size(a[far, k:far])), _most(_size(a[far + 1 :, far])))
            corner = float(abs(a[far, far].real) if hermitian else _size(a[far, far]))
            if own < _ALPHA * largest * (largest / beside):
                chosen = far
                step = 1 if corner >= _ALPHA * beside else 2
        last = k + step - 1
        if chosen != last:
            _exchange(a, k, last, chosen, step, hermitian)
        elif hermitian:
            a[k, k] = a[k, k].real
            if step == 2:
                a[k + 1, k + 1] = a[k + 1, k + 1].real
        _eliminate(a, k, step, hermitian)
        pivots[k : k + step] = chosen + 1 if step == 1 else -(chosen + 1)
        k += step
    return info


def _most(values: Any) -> float:
    return float(values.max()) if len(values) else 0.0


def _exchange(a: Any, k: int, first: int, second: int, step: int, hermitian: bool) -> None:
    """Rows and columns `first` and `second` of what is left, of which only the lower triangle is there."""
    turned = np.conj if hermitian else np.array
    a[second + 1 :, first], a[second + 1 :, second] = a[second + 1 :, second].copy(), a[second + 1 :, first].copy()
    a[first + 1 : second, first], a[second, first + 1 : second] = (
        turned(a[second, first + 1 : second]),
        turned(a[first + 1 : second, first]),
    )
    if hermitian:
        a[second, first] = a[second, first].conjugate()
        a[first, first], a[second, second] = a[second, second].real, a[first, first].real
        if step == 2:
            a[k, k] = a[k, k].real
    else:
        a[first, first], a[second, second] = a[second, second], a[first, first]
    if step == 2:
        a[k + 1, k], a[second, k] = a[second, k], a[k + 1, k]


def _block(a: Any, k: int, hermitian: bool) -> Any:
    """The block of two on D's diagonal."""
    beside = a[k + 1, k]
    return np.array([[a[k, k], beside.conjugate() if hermitian else beside], [beside, a[k + 1, k + 1]]])


def _eliminate(a: Any, k: int, step: int, hermitian: bool) -> None:
    after = k + step
    columns = a[after:, k:after].copy()
    if not len(columns):
        return
    scaled = columns / a[k, k] if step == 1 else np.linalg.solve(_block(a, k, hermitian).T, columns.T).T
    a[after:, after:] -= scaled @ (columns.conj() if hermitian else columns).T
    a[after:, k:after] = scaled
    if hermitian:
        places = np.arange(after, len(a))
        a[places, places] = a[places, places].real


def bunch_kaufman_solution(packed: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    """x with A @ x = b, of A's factors; leading dims broadcast."""
    lead = np.broadcast_shapes(packed.shape[:-2], b.shape[:-2])
    result = np.array(np.broadcast_to(b, (*lead, *b.shape[-2:])), order="C")
    factors = np.broadcast_to(packed, (*lead, *packed.shape[-2:]))
    exchanges = np.broadcast_to(pivots, (*lead, pivots.shape[-1]))
    for place in np.ndindex(lead):
        _solve(factors[place], exchanges[place], result[place], hermitian and packed.dtype.kind == "c")
    return result


def _solve(a: Any, pivots: Any, b: Any, hermitian: bool) -> None:
    blocks, k = [], 0
    while k < len(a):
        step = 1 if pivots[k] > 0 else 2
        blocks.append((k, step))
        after, last = k + step, k + step - 1
        chosen = abs(int(pivots[k])) - 1
        b[[last, chosen]] = b[[chosen, last]]
        b[after:] -= a[after:, k:after] @ b[k:after]
        if step == 1:
            b[k] /= a[k, k].real if hermitian else a[k, k]
        else:
            b[k:after] = np.linalg.solve(_block(a, k, hermitian), b[k:after])
        k = after
    for k, step in reversed(blocks):
        after, last = k + step, k + step - 1
        below = a[after:, k:after]
        b[k:after] -= (below.conj() if hermitian else below).T @ b[after:]
        chosen = abs(int(pivots[k])) - 1
        b[[last, chosen]] = b[[chosen, last]]
