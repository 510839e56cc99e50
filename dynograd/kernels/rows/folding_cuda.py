"""CudaArrays as row programs take them: row-major (outer, n, inner) memory, and the vectors and numbers that go along."""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import streams, thread_state
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.reduce.reducing_cuda import computed

_constants: dict[Any, CudaArray] = {}


def rows_of(x: Any, ndim: int) -> Any:
    """(R, C, 1): the last `ndim` dims of x are a row."""
    split = x.ndim - ndim
    return contiguous(x).reshape((prod(x.shape[:split]), prod(x.shape[split:]), 1))


def one_row(x: Any) -> Any:
    """(1, size, 1): all elements are a row."""
    return contiguous(x).reshape((1, x.size, 1))


def rows_along(x: CudaArray, dims: tuple[int, ...]) -> tuple[CudaArray, int]:
    """(row-major (outer, n, inner) memory with `dims` as n, inner); dims that do not lie side by side are moved to the end."""
    shape = x.shape
    places = sorted(dims)
    x = contiguous(x)
    if not places:
        return x.reshape((x.size, 1, 1)), 1
    first, last = places[0], places[-1]
    if len(places) != last - first + 1:
        rest = [place for place in range(x.ndim) if place not in dims]
        x = x.transpose((*rest, *places)).copy()
        n = prod([shape[place] for place in places])
        return x.reshape((prod([shape[place] for place in rest]), n, 1)), 1
    inner = prod(shape[last + 1 :])
    return x.reshape((prod(shape[:first]), prod(shape[first : last + 1]), inner)), inner


def vector_of(values: Any, default: float, rows: Any) -> Any:
    """A flat parameter of rows (R, C, 1); `default` throughout for None."""
    if values is None:
        return constant(default, rows.shape[1], computed(rows.dtype), rows.device_index)
    return contiguous(values).reshape((values.size,))


def constant(value: float, count: int, kind: Any, index: int) -> Any:
    """A vector of one number, that nobody writes to. Kept for its stream, unless it lies in the memory of a graph being captured."""
    key = (value, count, kind, index, streams.current_handle(index))
    vector = _constants.get(key)
    if vector is None:
        vector = cuda_arrays.empty((count,), kind, index)
        vector.fill(value)
        if len(_constants) < 256 and thread_state.current.captured_device < 0:
            _constants[key] = vector
    return vector
