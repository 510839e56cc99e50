"""Picking, writing and adding along one dim, on CudaArrays: with an index of the result's shape, or one index for whole slices.

Sums are added up by atomics, in any order; under `use_deterministic_algorithms(True)` the index is sorted first, and equal ones are
added in their order. Half types add up in float32, small whole numbers in int32.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.build import faults_cuda as faults
from dynograd.kernels.build.determinism import are_deterministic_algorithms_enabled
from dynograd.kernels.index import scatters_triton as kernels
from dynograd.kernels.layout.copies_cuda import bits, contiguous, full, is_big, sum_dtype, three, units, zeros

_INT64 = numpy.dtype(numpy.int64)
_BLOCK, _MASK_BLOCK = 1024, 4096
_REDUCTIONS = {"sum": 0, "prod": 1, "amax": 2, "amin": 3}
_NOBODY = -1


# --- whole slices --------------------------------------------------------------------------------------------------------


def take(x: CudaArray, index: CudaArray, dim: int, who: str = "index", negative: bool = True) -> CudaArray:
    """The slices of `x` along `dim` at `index` (any shape; negative numbers count from the end), a new array."""
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    out = cuda_arrays.empty(shape, x.dtype, x.device_index)
    if not out.size:
        return out
    x, index = contiguous(x), contiguous(index)
    outer, size, inner = three(x, dim)
    number = faults.site(who, index, -size if negative else 0, size) if who else 0
    width, vector, (source, target) = units(inner * x.itemsize, x, out)
    grid, tiles, sizes = _tiles(outer * index.size, width * vector)
    kernels.pick_slices(
        grid, source, index, target, faults.word(x.device_index), number, size, index.size, outer * index.size, width, tiles,
        MANY=outer > 1, WRAP=negative, VEC=vector, **sizes,
    )  # fmt: skip
    return out


def write_slices(
    out: CudaArray, dim: int, index: CudaArray, src: CudaArray, who: str = "index_put", negative: bool = True
) -> None:
    """out's slices along `dim` at the vector `index` = src's slices (or its one element), in place; `out` is row-major.

    Which of several writes to a place stays is left open; with deterministic algorithms it is the last.
    """
    outer, size, inner = three(out, dim)
    if not out.size or not index.size:
        return
    is_number = src.size == 1 and outer * index.size * inner != 1
    src, index = contiguous(src, out.dtype), contiguous(index)
    number, device = faults.site(who, index, -size if negative else 0, size) if who else 0, out.device_index
    order = index
    ordered = are_deterministic_algorithms_enabled() and not is_number
    if ordered:
        index, order = _in_order(index, size, number, negative)
        negative = False
    if is_number:
        pairs = 2 if out.itemsize == 16 else 1
        width, vector, target, source = inner, 1, bits(out).reshape(-1), bits(src).reshape(-1)
        if pairs == 2:  # two numbers an element: no single one can be repeated
            return write_slices(
                out, dim, index, src.broadcast_to((*out.shape[:dim], index.size, *out.shape[dim + 1 :])), who, negative
            )
    else:
        width, vector, (target, source) = units(inner * out.itemsize, out, src)
    grid, tiles, sizes = _tiles(outer * index.size, width * vector)
    kernels.write_slices(
        grid, target, index, source, order, faults.word(device), 0 if ordered else number, size, index.size, outer * index.size,
        width, tiles, _NOBODY, MANY=outer > 1, WRAP=negative, SORTED=ordered, ONE=is_number, VEC=vector, **sizes,
    )  # fmt: skip
    return None


def add_slices(
    out: CudaArray,
    dim: int,
    index: CudaArray,
    src: CudaArray,
    who: str = "index_add",
    negative: bool = True,
    skipped: int = _NOBODY,
) -> None:
    """out's slices along `dim` at the vector `index` += src's slices, in place; `out` is row-major, of a dtype of `sum_dtype`."""
    outer, size, inner = three(out, dim)
    if not out.size or not index.size:
        return
    src, index = _real(contiguous(src)), contiguous(index)
    if out.dtype.kind == "c":
        out, inner = _real(out), 2 * inner
    number, device = faults.site(who, index, -size if negative else 0, size) if who else 0, out.device_index
    if are_deterministic_algorithms_enabled():
        keys, order = _in_order(index, size, number, negative)
        _reduce_runs(out, keys, order, src, size, outer, inner, 0, True, skipped)
        return
    grid, tiles, sizes = _tiles(outer * index.size, inner)
    kernels.add_slices(
        grid, out, index, src, faults.word(device), number, size, index.size, outer * index.size, inner, tiles, skipped,
        MANY=outer > 1, WRAP=negative, **sizes,
    )  # fmt: skip


def _reduce_runs(
    out: CudaArray, keys: CudaArray, order: CudaArray, src: CudaArray, size: int, outer: int, inner: int, op: int, include: bool,
    skipped: int = _NOBODY,
) -> None:  # fmt: skip
    rows = outer * keys.size
    columns = min(_power(inner), 512)
    together, tiles = 512 // columns, -(-inner // columns)
    kernels.reduce_runs(
        (-(-rows // together) * tiles,), out, keys, order, src, size, keys.size, rows, inner, tiles, skipped, OP=op, INCLUDE=include,
        ROWS=together, COLS=columns,
    )  # fmt: skip


def _in_order(index: CudaArray, size: int, number: int, negative: bool) -> tuple[CudaArray, CudaArray]:
    """(the index from 0 in ascending order with `size` for what is outside, which place each was at)."""
    from dynograd.kernels.sort.sorting_cuda import order_of

    keys = cuda_arrays.empty((index.size,), _INT64, index.device_index)
    _join(index, keys, size, size, number, True)
    order = order_of(keys, size)
    return take(keys, order, 0, ""), order


def _tiles(rows: int, width: int) -> tuple[tuple[int], int, dict[str, Any]]:
    """(grid, tiles along a line, sizes of a tile) for lines of `width` numbers."""
    columns = min(_power(width), _BLOCK)
    together, tiles = _BLOCK // columns, -(-width // columns)
    return (-(-rows // together) * tiles,), tiles, {"BIG": is_big(rows), "ROWS": together, "COLS": columns}


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()


def _real(x: CudaArray) -> CudaArray:
    """Complex numbers as pairs of real ones, bools as small numbers."""
    if x.dtype.kind == "b":
        return bits(x)
    if x.dtype.kind != "c":
        return x
    part = x.real
    return CudaArray(x.storage, x.pointer, (*x.shape, 2), (*x.strides, part.itemsize), part.dtype)


def joined_places(indices: list[CudaArray], shape: tuple[int, ...], who: str = "index") -> CudaArray:
    """Where elements lie, row-major over `shape`, from row-major int64 arrays with their place along each dim.

    What is outside gets the number of elements.
    """
    device, limit = indices[0].device_index, prod(shape)
    out = cuda_arrays.empty(indices[0].shape, _INT64, device)
    for place, (index, size) in enumerate(zip(indices, shape, strict=True)):
        _join(index, out, size, limit, faults.site(who, index, -size, size), place == 0)
    return out


def _join(index: CudaArray, places: CudaArray, size: int, limit: int, number: int, first: bool) -> None:
    grid, fault = (-(-places.size // _BLOCK),), faults.word(index.device_index)
    kernels.join_places(grid, index, places, fault, number, size, limit, places.size, FIRST=first, BLOCK=_BLOCK)


# --- masks ---------------------------------------------------------------------------------------------------------------


def true_places(mask: CudaArray) -> CudaArray:
    """The row-major positions of the elements of a mask that are True. Waits for their number."""
    flat = bits(contiguous(mask)).reshape(-1)
    starts, total = _counted(flat)
    out = cuda_arrays.empty((total,), _INT64, flat.device_index)
    if total:
        kernels.true_places((starts.size,), flat, starts, out, flat.size, BLOCK=_MASK_BLOCK, num_warps=8)
    return out


def runs_of(mask: CudaArray) -> tuple[CudaArray, CudaArray]:
    """(the places where a vector of truths is True, for each place the number of the last True one). Waits for their number."""
    flat = bits(contiguous(mask))
    starts, total = _counted(flat)
    places = cuda_arrays.empty((total,), _INT64, flat.device_index)
    numbers = cuda_arrays.empty(flat.shape, _INT64, flat.device_index)
    for kernel, results in ((kernels.true_places, places), (kernels.run_numbers, numbers)):
        if results.size:
            kernel((starts.size,), flat, starts, results, flat.size, BLOCK=_MASK_BLOCK, num_warps=8)
    return places, numbers


def _counted(flat: CudaArray) -> tuple[CudaArray, int]:
    counts = cuda_arrays.empty((-(-flat.size // _MASK_BLOCK),), _INT64, flat.device_index)
    if not flat.size:
        return counts, 0
    kernels.count_true((counts.size,), flat, counts, flat.size, BLOCK=_MASK_BLOCK, num_warps=8)
    starts, total = sums_before(counts)
    return starts, total.item()


def sums_before(counts: CudaArray) -> tuple[CudaArray, CudaArray]:
    """(the sum of what stands before each number along the last dim, the sum of all)."""
    ends = cuda_arrays.empty(counts.shape, counts.dtype, counts.device_index)
    totals = cuda_arrays.empty((*counts.shape[:-1], 1), counts.dtype, counts.device_index)
    size = counts.shape[-1]
    kernels.sums_before((totals.size,), counts, ends, totals, size, BLOCK=min(2048, _power(size)), num_warps=8)
    return ends, totals


# --- an index for each element -------------------------------------------------------------------------------------------


def along(x: CudaArray, dim: int, index: CudaArray, who: str = "") -> CudaArray:
    """x at `index` along `dim`; both are row-major and agree in the other dims."""
    out = cuda_arrays.empty(index.shape, x.dtype, x.device_index)
    if x.itemsize == 16:
        operations.copy_into(out.real, along(x.real.copy(), dim, index, who))
        operations.copy_into(out.imag, along(x.imag.copy(), dim, index, who))
        return out
    if out.size:
        grid, numbers, sizes = _flat(index, dim, x.shape[dim], who)
        kernels.pick_along(grid, bits(x), index, bits(out), *numbers, **sizes)
    return out


def sent_to(order: CudaArray, values: CudaArray) -> CudaArray:
    """result[order] = values, for an order that is a permutation."""
    out = cuda_arrays.empty(values.shape, values.dtype, values.device_index)
    if out.size:
        grid, numbers, sizes = _flat(order, 0, out.size, "")
        kernels.write_along(grid, bits(out), order, bits(values), *numbers, ONE=False, **sizes)
    return out


def _flat(index: CudaArray, dim: int, size: int, who: str) -> tuple[tuple[int], tuple[Any, ...], dict[str, Any]]:
    """(grid, numbers, constants) for the kernels with an index for each element."""
    _, count, inner = three(index, dim)
    number = faults.site(who, index, 0, size) if who else 0
    numbers = faults.word(index.device_index), number, size, count, inner, index.size
    return (-(-index.size // _BLOCK),), numbers, {"BIG": is_big(index.size), "BLOCK": _BLOCK}


def _cropped(x: CudaArray, dim: int, index: CudaArray) -> CudaArray:
    """The part of `x` that an index reaches: the index may be smaller outside `dim`."""
    return x[tuple([slice(None) if axis == dim else slice(0, size) for axis, size in enumerate(index.shape)])]


def gather(x: CudaArray, dim: int, index: CudaArray) -> CudaArray:
    """x[..., index[..., i, ...], ...] in the shape of `index`, which may be smaller than `x` outside `dim`."""
    line_of_index = _one_for_all(index, dim)
    if line_of_index is not None and _agree(x, dim, index):
        return take(x, line_of_index, dim, "gather", False)
    line = _one_for_all(x, dim)
    if line is not None:
        return take(line, index, 0, "gather", False)
    return along(contiguous(_cropped(x, dim, index)), dim, contiguous(index), "gather")


def _one_for_all(array: CudaArray, dim: int) -> CudaArray | None:
    """The vector along `dim` that an array repeats in all other dims, as one that was expanded does; else None."""
    for place, (size, step) in enumerate(zip(array.shape, array.strides, strict=True)):
        if step and size > 1 and place != dim:
            return None
    return array[tuple([slice(None) if place == dim else 0 for place in range(array.ndim)])] if array.size else None


def _agree(x: CudaArray, dim: int, index: CudaArray) -> bool:
    return x.shape[:dim] == index.shape[:dim] and x.shape[dim + 1 :] == index.shape[dim + 1 :]


def wrapped(index: CudaArray, size: int) -> CudaArray:
    """`index` with negative numbers counted from the front."""
    return operations.elementwise("where", index < 0, index + size, index)


def gather_backward(g: CudaArray, dim: int, index: CudaArray, shape: tuple[int, ...]) -> CudaArray:
    """Zeros of `shape` with `g` added at `index` along `dim`."""
    result = zeros(shape, sum_dtype(g.dtype), g.device_index)
    _add(result, dim, index, g, "gather_backward")
    return result.astype(g.dtype, copy=False)


def scatter(x: CudaArray, dim: int, index: CudaArray, src: Any) -> CudaArray:
    """A copy of `x` with src (an array or a number) written at `index` along `dim`."""
    result = x.copy()
    if not isinstance(src, CudaArray):
        src = full((1,), src, x.dtype, x.device_index)
    if index.size and x.size:
        src = src if src.dtype == x.dtype else src.astype(x.dtype)
        if src.size > 1:  # what the index does not reach is not written
            src = contiguous(src)
        _into(result, dim, index, lambda target: _write(target, dim, contiguous(index), src))
    return result


def _into(result: CudaArray, dim: int, index: CudaArray, write: Any) -> None:
    """Calls `write` on a row-major array that agrees with the index outside `dim`: `result`, or a copy of its part."""
    if _agree(result, dim, index):
        write(result)
        return
    part = _cropped(result, dim, index)
    target = part.copy()
    write(target)
    operations.copy_into(part, target)


def _write(target: CudaArray, dim: int, index: CudaArray, src: CudaArray) -> None:
    if target.itemsize == 16 or (are_deterministic_algorithms_enabled() and src.size > 1):
        places = _places(target, dim, index, "scatter")
        source = src.reshape(-1) if src.size > 1 else src.broadcast_to((places.size,))
        write_slices(target.reshape(-1), 0, places, source, "")
        return
    grid, numbers, sizes = _flat(index, dim, target.shape[dim], "scatter")
    kernels.write_along(grid, bits(target), index, bits(src), *numbers, ONE=src.size == 1, **sizes)


def _places(target: CudaArray, dim: int, index: CudaArray, who: str) -> CudaArray:
    """The row-major position in `target` that each element of `index` names; target.size for none."""
    places = cuda_arrays.empty((index.size,), _INT64, index.device_index)
    grid, numbers, sizes = _flat(index, dim, target.shape[dim], who)
    kernels.places_along(grid, places, index, *numbers, target.size, **sizes)
    return places


def scatter_add(x: CudaArray, dim: int, index: CudaArray, src: CudaArray) -> CudaArray:
    """A copy of `x` with src added at `index` along `dim`. Half types add up in float32."""
    kind = sum_dtype(x.dtype)
    result = x.copy() if kind == x.dtype else x.astype(kind)
    _add(result, dim, index, src, "scatter_add")
    return result.astype(x.dtype, copy=False)


def _add(result: CudaArray, dim: int, index: CudaArray, src: CudaArray, who: str) -> None:
    if not index.size or not result.size:
        return
    line_of_index = _one_for_all(index, dim)
    if line_of_index is not None and _agree(result, dim, index):
        add_slices(result, dim, line_of_index, src, who, False)
        return
    src, index = contiguous(src), contiguous(index)
    if result.dtype.kind == "c":
        _into(
            result,
            dim,
            index,
            lambda target: add_slices(target.reshape(-1), 0, _places(target, dim, index, who), src.reshape(-1), ""),
        )
        return
    _into(result, dim, index, lambda target: _add_along(target, dim, index, _real(src), who))


def _add_along(target: CudaArray, dim: int, index: CudaArray, src: CudaArray, who: str) -> None:
    if are_deterministic_algorithms_enabled():
        _reduce_along(target, dim, index, src, 0, True, who)
        return
    grid, numbers, sizes = _flat(index, dim, target.shape[dim], who)
    kernels.add_along(grid, target, index, src, *numbers, **sizes)


def _reduce_along(
    target: CudaArray, dim: int, index: CudaArray, src: CudaArray, op: int, include: bool, who: str
) -> None:
    from dynograd.kernels.sort.sorting_cuda import order_of

    places = _places(target, dim, index, who)
    order = order_of(places, target.size)
    keys = take(places, order, 0, "")
    _reduce_runs(target, keys, order, src, target.size, 1, 1, op, include)


def scatter_reduce(
    x: CudaArray, dim: int, index: CudaArray, src: CudaArray, reduce: str, include_self: bool
) -> CudaArray:
    """A copy of `x` with the product, maximum or minimum of what `src` puts at a place (and of `x` there, when `include_self`).

    The index is sorted, so that results repeat.
    """
    kind = sum_dtype(x.dtype)
    result = x.astype(kind, copy=True) if kind != x.dtype else x.copy()
    if index.size and result.size:
        op, src, index = _REDUCTIONS[reduce], _real(contiguous(src)), contiguous(index)
        _into(
            result,
            dim,
            index,
            lambda target: _reduce_along(target, dim, index, src, op, include_self, "scatter_reduce"),
        )
    return result.astype(x.dtype, copy=False)


def ties(x: CudaArray, y: CudaArray) -> CudaArray:
    """1 where x equals y, else 0, in the dtype of x."""
    return (x == y).astype(x.dtype)
