"""Matrix products: small ones through NumPy, others in blocks on our own threads (`matmuls_numba`), without copies of transposed,
strided or broadcast operands. Half types are computed in float32.

BLAS never gets a product that it would cut over threads of its own: its pool and ours on the same processors cost up to 16 times the
time. In batch-invariant mode every product of floats takes our way, whose bits do not depend on the number of rows.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy

from dynograd.arrays import buffers, meta_arrays
from dynograd.kernels.build import blas, threads
from dynograd.kernels.build.batch_invariance import USES, batch_invariant

# OpenBLAS computes m * n * k < 2**19 in the calling thread, and products with a vector up to 96 * 96.
_SMALL, _SMALL_WITH_VECTOR = 1 << 19, 9216
# A thread of our pool pays from about 4 us of multiplying; `threads.parts` counts simple operations, a fused one in a tile takes an eighth.
_PER_OPERATION = 8
# Columns whose sums stay in the level-1 cache; where one thread computes, long blocks read the matrix in longer pieces.
_VECTOR_BLOCK, _LONG_VECTOR_BLOCK = 256, 2048
_FLOATS = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64))
_loops: list[Any] = []


def matmul_forward(input: Any, other: Any) -> Any:
    """`input @ other` by NumPy's rules for dims."""
    if type(other) is meta_arrays.MetaArray:
        raise meta_arrays.no_values("matmul")
    if input.dtype.char not in "fd":
        return _other_kinds(input, other)
    rank, other_rank = input.ndim, other.ndim
    if rank == 2 == other_rank:
        rows, inner = input.shape
        columns = other.shape[1]
        work = rows * inner * columns
        if work < _SMALL and (work <= _SMALL_WITH_VECTOR or (rows > 1 and columns > 1)):
            if USES.batch_invariant and batch_invariant():
                return _product(input, other, None)
            return input.dot(other)  # the method: numpy.dot asks other types first, in Python
        return _product(input, other, None)
    if rank == 1 or other_rank == 1:
        if input.size <= _SMALL_WITH_VECTOR >= other.size and not batch_invariant():
            return (numpy.dot if rank < 3 > other_rank else numpy.matmul)(input, other)
        rows = input if input.ndim > 1 else input.reshape(1, -1)
        columns = other if other.ndim > 1 else other.reshape(-1, 1)
        out = _product(rows, columns, None)
        shape = out.shape[:-2]
        if input.ndim > 1:
            shape = (*shape, out.shape[-2])
        if other.ndim > 1:
            shape = (*shape, out.shape[-1])
        return out.reshape(shape)
    return _product(input, other, None)


def ordered_product(input: Any, other: Any, begin: Any = None) -> numpy.ndarray:
    """begin + input @ other for float arrays of 2 and more dims, whose bits depend on no size but the inner one, in every mode."""
    return _product(input, other, begin, ordered=True)


def few_product(input: Any, other: Any) -> Any:
    """What NumPy multiplies at once: small float matrices and vectors; None leaves others to `matmul_forward`."""
    if input.dtype is not other.dtype or input.dtype.char not in "fd" or (USES.batch_invariant and batch_invariant()):
        return None
    rank, size = input.ndim, input.size
    if other.ndim == 1:
        if not 0 < rank < 3 or size > _SMALL_WITH_VECTOR or other.size > _SMALL_WITH_VECTOR:
            return None
        return input.dot(other) if rank == 2 else input.dot(other, numpy.empty((), input.dtype))
    if rank == 3 == other.ndim:
        return few_products(input, other)
    if rank != 2 or other.ndim != 2:
        return None
    columns = other.shape[1]
    work = size * columns
    if work < _SMALL and (work <= _SMALL_WITH_VECTOR or (len(input) > 1 and columns > 1)):
        return input.dot(other) if type(other) is numpy.ndarray else None  # one of device meta would be read
    return None


def few_products(input: Any, other: Any) -> Any:
    """The same of batches of matrices, (B, N, M) with (B, M, P)."""
    if input.dtype is not other.dtype or input.dtype.char not in "fd" or batch_invariant():
        return None
    batch, rows, inner = input.shape
    columns = other.shape[2]
    work = input.size * columns
    if other.shape != (batch, inner, columns) or work >= _SMALL or is_one_matrix(other):
        return None
    if inner * max(rows, columns) <= _SMALL_WITH_VECTOR or (rows > 1 and columns > 1):
        return numpy.matmul(input, other)
    return None


def is_one_matrix(batch: Any) -> bool:
    """Whether all matrices of a batch (B, N, M) are one and the same memory: what is multiplied with it is one matrix of all its rows."""
    return batch.ndim == 3 and batch.shape[0] > 1 and not batch.strides[0]


def linear_forward(input: Any, weight: Any, bias: Any) -> numpy.ndarray:
    """`input @ weight.T + bias`."""
    kind = input.dtype
    if kind not in _FLOATS:
        return _linear_of_other_kinds(input, weight, bias)
    if weight.ndim == 1:
        out = matmul_forward(input, weight)
        return out if bias is None else out + bias
    features, inner = weight.shape
    work = input.size * features
    if input.ndim == 2 and work < _SMALL and not batch_invariant():
        if work <= _SMALL_WITH_VECTOR or (features > 1 and input.shape[0] > 1):
            out = input.dot(weight.T)
            if bias is not None:
                if bias.ndim > 1 or (bias.ndim and bias.shape[0] != features):
                    return out + bias
                out += bias
            return out
    rows = input if input.ndim > 1 else input.reshape(1, inner)
    if rows.ndim > 2 and rows.flags.c_contiguous:
        rows = rows.reshape(input.size // inner if inner else _count(input.shape[:-1]), inner)
    lead = input.shape[:-1]
    if bias is None or bias.shape == (features,) or bias.shape == (1,):
        out = _product(rows, weight.T, bias)
        return out if out.shape[:-1] == lead else out.reshape(*lead, features)
    out = _product(rows, weight.T, None).reshape(*lead, features)
    return out + bias


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


# --- batches of matrices in blocks -----------------------------------------------------------------------------------------


def _product(x: Any, y: Any, begin: Any, ordered: bool = False) -> numpy.ndarray:
    """begin + x @ y for float arrays of 2 and more dims; `ordered`: in batch-invariant mode, whether it is on or not."""
    invariant = ordered or (USES.batch_invariant and batch_invariant())
    if y.ndim == 2 and (begin is None or begin.ndim < 2):
        if x.ndim == 2:
            return _of_matrices(x, y, begin, invariant)
        if x.flags.c_contiguous:
            flat = x.reshape(_count(x.shape[:-1]), x.shape[-1])
            return _of_matrices(flat, y, begin, invariant).reshape(*x.shape[:-1], y.shape[1])
    if x.ndim == 3 and begin is None and len(x) == len(y) and is_one_matrix(y) and not is_one_matrix(x):
        count, rows, inner = x.shape
        flat = x.reshape(count * rows, inner)
        return matmul_forward(flat, y[0]).reshape(count, rows, y.shape[2])
    m, k = x.shape[-2:]
    n = y.shape[-1]
    lead = x.shape[:-2]
    if lead != y.shape[:-2]:
        lead = numpy.broadcast_shapes(lead, y.shape[:-2])
    batch = _count(lead)
    if batch * m * n * k < _SMALL and not invariant and (k * max(m, n) <= _SMALL_WITH_VECTOR or min(m, n) > 1):
        out = numpy.matmul(x, y)
        return out if begin is None else numpy.add(out, begin, out=out)
    out = buffers.empty((*lead, m, n), x.dtype)
    if not out.size:
        return out
    x, transpose_x, row_x = in_rows(x)
    y, transpose_y, row_y = in_rows(y)
    begin = None if begin is None else _begin_in_rows(begin, out)
    operands = [x, y, begin, out]
    sizes, strides = merged(lead, operands)
    if len(sizes) > 2:
        x, transpose_x, row_x = numpy.ascontiguousarray(numpy.broadcast_to(x, (*lead, m, k))), False, k
        y, transpose_y, row_y = numpy.ascontiguousarray(numpy.broadcast_to(y, (*lead, k, n))), False, n
        operands = [x, y, None if begin is None else numpy.ascontiguousarray(begin), out]
        sizes, strides = merged(lead, operands)
    flags = [transpose_x, row_x, transpose_y, row_y]
    if (
        (m > 1 and n > 1)
        or begin is not None
        or invariant
        or not _vector_product(operands, flags, (m, n, k), sizes, strides)
    ):
        _blocks(operands, flags, (m, n, k), sizes, strides)
    return out


def _of_matrices(x: Any, y: Any, begin: Any, invariant: bool) -> numpy.ndarray:
    """`_product` of two matrices, with little to decide."""
    m, k = x.shape
    n = y.shape[1]
    out = buffers.empty((m, n), x.dtype)
    if not out.size:
        return out
    x, transpose_x, row_x = in_rows(x)
    y, transpose_y, row_y = in_rows(y)
    begin_row = 0
    if (m == 1 or (n == 1 and begin is None)) and not invariant:
        if begin is not None and (begin.shape != (n,) or begin.strides[0] != out.itemsize):
            begin = _begin_in_rows(begin, out)[0]
        flags = [transpose_x, row_x, transpose_y, row_y]
        if _vector_product([x, y, begin, out], flags, (m, n, k), [], [[], [], [], []]):
            return out
    if begin is not None:
        if begin.shape != (n,) or begin.strides[0] != out.itemsize:
            begin = _begin_in_rows(begin, out)
            begin_row = begin.strides[0] // out.itemsize
    parts = threads.parts(m * n * k // _PER_OPERATION)
    block_m, block_n = (m, n) if parts == 1 else _cut(m, n, parts)
    loops = _kernels()
    handle = loops.handle
    loops.products[out.dtype](
        loops.functions(out.dtype), m, n, k, block_m, block_n, 1,
        handle(x), 0, 0, transpose_x, row_x,
        handle(y), 0, 0, transpose_y, row_y,
        0 if begin is None else handle(begin), 0, 0, begin_row,
        handle(out), 0, 0, n,
        loops.NOTHING, 0, 0,
        count=(_up(m, block_m) // block_m) * (_up(n, block_n) // block_n), work=0, parts=parts,
    )  # fmt: skip
    return out


def _kernels() -> Any:
    """`matmuls_numba`, which loads Numba."""
    if not _loops:
        _loops.append(import_module("dynograd.kernels.matmul.matmuls_numba"))
    return _loops[0]


def _begin_in_rows(begin: Any, out: Any) -> Any:
    """`begin` in the shape of `out`, its rows in one piece each."""
    begin = numpy.broadcast_to(begin, out.shape)
    uneven = begin.strides[-2] % out.itemsize or begin.strides[-2] < 0
    if uneven or (out.shape[-1] > 1 and begin.strides[-1] != out.itemsize):
        return numpy.ascontiguousarray(begin)
    return begin


def _vector_product(
    operands: list[Any], flags: list[Any], extents: tuple[int, int, int], sizes: list[int], strides: list[Any]
) -> bool:
    """Writes the product if one operand is a vector and the other one's rows or columns can be read in one piece each.

    A `begin`, for one product of a row, is in one piece.
    """
    x, y, begin, out = operands
    transpose_x, row_x, transpose_y, row_y = flags
    m, n, k = extents
    if n == 1:  # as a row times the transposed matrix
        x, y, transpose_x, row_x, transpose_y, row_y = y, x, not transpose_y, row_y, not transpose_x, row_x
        strides = [strides[1], strides[0], *strides[2:]]
        n = m
    step = row_x if transpose_x else 1
    if len(sizes) > 1 or not n or not k:
        return False
    loops = _kernels()
    handle = loops.handle
    count = sizes[0] if sizes else 1
    begins = 0 if begin is None else handle(begin)
    if transpose_y and step == 1:
        outer = [steps[0] if steps else 0 for steps in strides]
        loops.vector_rows[out.dtype](
            handle(y),
            outer[1],
            row_y,
            handle(x),
            outer[0],
            begins,
            handle(out),
            n,
            k,
            count=count * n,
            work=count * n * k,
        )
        return True
    if not transpose_y and count == 1:
        width = _LONG_VECTOR_BLOCK if threads.parts(n * k) == 1 else _VECTOR_BLOCK
        loops.vector_columns[out.dtype](
            handle(y),
            row_y,
            handle(x),
            step,
            begins,
            handle(out),
            k,
            width,
            n,
            count=_up(n, width) // width,
            work=n * k,
        )
        return True
    return False


def in_rows(x: Any) -> tuple[Any, bool, int]:
    """The array (a copy where need be), whether its columns lie in one piece rather than its rows, and elements from one to the next."""
    size = x.itemsize
    down, across = x.strides[-2:]
    rows, columns = x.shape[-2:]
    if (across == size or columns == 1) and down >= 0 and not down % size:
        return x, False, down // size
    if (down == size or rows == 1) and across >= 0 and not across % size:
        return x, True, across // size
    x = numpy.ascontiguousarray(x)
    return x, False, columns


def merged(lead: tuple[int, ...], operands: list[Any]) -> tuple[list[int], list[list[int]]]:
    """The leading dims, with those merged that all operands step through evenly, and each operand's strides in elements."""
    if not lead:
        return [], [[] for _ in operands]
    size = operands[-1].itemsize
    rank = len(lead)
    all_steps: list[Any] = []
    for operand in operands:
        if operand is None:
            all_steps.append((0,) * rank)
            continue
        own, steps = operand.shape[:-2], operand.strides[:-2]
        padding = (0,) * (rank - len(own))
        all_steps.append(
            padding + tuple([0 if extent == 1 else step // size for extent, step in zip(own, steps, strict=True)])
        )
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in operands]
    for place, extent in enumerate(lead):
        if extent == 1:
            continue
        if sizes and all([mine[-1] == steps[place] * extent for mine, steps in zip(strides, all_steps, strict=True)]):
            sizes[-1] *= extent
            for mine, steps in zip(strides, all_steps, strict=True):
                mine[-1] = steps[place]
        else:
            sizes.append(extent)
            for mine, steps in zip(strides, all_steps, strict=True):
                mine.append(steps[place])
    return sizes, strides


def _blocks(
    operands: list[Any], flags: list[Any], extents: tuple[int, int, int], sizes: list[int], strides: list[Any]
) -> None:
    """Runs `products` over at most two leading dims."""
    kernel, arguments, count, parts = blocks_of(operands, flags, extents, sizes, strides)
    kernel(*arguments, count=count, work=0, parts=parts)


def blocks_of(
    operands: list[Any], flags: list[Any], extents: tuple[int, int, int], sizes: list[int], strides: list[Any]
) -> tuple[Any, tuple[Any, ...], int, int]:
    """(kernel, arguments, items, parts) of batches of products begin + x @ y over at most two leading dims; arrays by handle.

    Args:
        operands: x, y, begin or None, and the result, whose rows lie in one piece each.
        flags: of x and of y, as `in_rows` gives them.
        extents: m, n, k.
        sizes, strides: of the leading dims, as `merged` gives them.
    """
    x, y, begin, out = operands
    transpose_x, row_x, transpose_y, row_y = flags
    m, n, k = extents
    outer, inner = (1, 1) if not sizes else (1, sizes[0]) if len(sizes) == 1 else sizes
    (xo, xi), (yo, yi), (bo, bi), (oo, oi) = [[0, 0, *steps][-2:] for steps in strides]
    block_m, block_n, count, parts = blocking(outer * inner, m, n, k)
    loops = _kernels()
    handle = loops.handle
    begin_row = 0 if begin is None or begin.ndim < 2 else begin.strides[-2] // out.itemsize
    arguments = (
        loops.functions(out.dtype), m, n, k, block_m, block_n, inner,
        handle(x), xo, xi, transpose_x, row_x,
        handle(y), yo, yi, transpose_y, row_y,
        0 if begin is None else handle(begin), bo, bi, begin_row,
        handle(out), oo, oi, out.strides[-2] // out.itemsize if m > 1 else n,
        loops.NOTHING, 0, 0,
    )  # fmt: skip
    return (
        loops.products[out.dtype],
        arguments,
        count,
        parts,
    )


def blocking(batch: int, m: int, n: int, k: int) -> tuple[int, int, int, int]:
    """(rows of a block, columns, items, parts) of so many products."""
    parts = threads.parts(batch * m * n * k // _PER_OPERATION)
    block_m, block_n = m, n
    if parts > 1 and batch % parts and batch < 8 * parts:
        block_m, block_n = _cut(m, n, parts)
    return block_m, block_n, batch * (_up(m, block_m) // block_m) * (_up(n, block_n) // block_n), parts


def _cut(m: int, n: int, parts: int) -> tuple[int, int]:
    """Blocks of rows, or of columns where that is less work: each part packs the whole of the other operand."""
    loops = _kernels()
    rows = _up(_up(m, parts) // parts, loops.ROWS)
    columns = _up(_up(n, parts) // parts, loops.COLUMNS)
    return (min(rows, m), n) if rows * n + 9 * n <= m * columns + 9 * m else (m, min(columns, n))


def _up(number: int, multiple: int) -> int:
    return (number + multiple - 1) // multiple * multiple


# --- half types, integers, complex numbers -----------------------------------------------------------------------------------


def _is_half(kind: Any) -> bool:
    return kind.kind == "V" or kind.num == 23


def _other_kinds(input: Any, other: Any) -> Any:
    kind = input.dtype
    if _is_half(kind):
        return matmul_forward(input.astype(numpy.float32), other.astype(numpy.float32)).astype(kind)
    with blas.one_thread:
        return numpy.matmul(input, other)


def _linear_of_other_kinds(input: Any, weight: Any, bias: Any) -> Any:
    kind = input.dtype
    if _is_half(kind):
        wide = None if bias is None else bias.astype(numpy.float32)
        return linear_forward(input.astype(numpy.float32), weight.astype(numpy.float32), wide).astype(kind)
    out = _other_kinds(input, weight.T)
    return out if bias is None else out + bias
