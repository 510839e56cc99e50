"""What all reductions of CudaArrays share: `reduced`, and how it goes through memory. `dim` is None (all), an int or a tuple of ints."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.launch_arguments_cuda import Double
from dynograd.kernels.elementwise.loops_cuda import triton_type
from dynograd.kernels.layout.copies_cuda import contiguous
from dynograd.kernels.reduce import reductions_triton as device

_INT64, _INT32 = numpy.dtype(numpy.int64), numpy.dtype(numpy.int32)
_FLOAT32, _BOOL, _UINT8 = numpy.dtype(numpy.float32), numpy.dtype(numpy.bool_), numpy.dtype(numpy.uint8)
_TILE = 2048  # elements at a time of one program: 16 for each thread of 4 warps
_ENOUGH = 512  # programs that fill a large GPU; with fewer, long rows are cut
_plans: dict[Any, Any] = {}
_SEGMENT = 32  # tiles of a segment in batch-invariant mode, where the number of rows decides nothing


def computed(kind: Any) -> Any:
    """The dtype that computes: float32 for half types."""
    return _FLOAT32 if kind.itemsize == 2 and kind.kind in "fV" else kind


def widened(input: Any) -> Any:
    kind = computed(input.dtype)
    return input if kind is input.dtype else input.astype(kind)


def dims_of(ndim: int, dim: Any) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(ndim))
    if not ndim:
        return ()
    return tuple([place % ndim for place in dim]) if type(dim) is tuple else (dim % ndim,)


def kept_shape(shape: tuple[int, ...], dim: Any, keepdim: bool) -> tuple[int, ...]:
    """The shape of a reduction's result."""
    dims = dims_of(len(shape), dim)
    if keepdim:
        return tuple([1 if place in dims else size for place, size in enumerate(shape)])
    return tuple([size for place, size in enumerate(shape) if place not in dims])


def with_kept(result: Any, shape: tuple[int, ...], dim: Any) -> Any:
    """A result of a reduction of an array of that shape, so that it broadcasts against it."""
    return result.reshape(kept_shape(shape, dim, True))


def power_of_two(size: int) -> int:
    """The least power of 2 that is not below `size`."""
    return 1 << max(size - 1, 0).bit_length()


def in_three(shape: tuple[int, ...], dim: int) -> tuple[int, int, int]:
    """(outer, n, inner): the sizes before, of and behind a dim."""
    return prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])


def rows_at_once(outer: int, most: int) -> int:
    """How many rows a program takes. It shapes the order of their sums, and is one for all batches in batch-invariant mode."""
    return max(1, most if batch_invariant() else min(power_of_two(outer), most))


def tiles(outer: int, n: int, inner: int, tile: int = _TILE) -> tuple[int, int, int, int]:
    """(ROWS, BLOCK, blocks, programs) with which `places_of` walks through (outer, n, inner) memory."""
    if inner == 1:
        block = min(power_of_two(n), tile)
        rows = rows_at_once(outer, tile // block)
        return rows, block, 1, -(-outer // rows)
    rows = min(power_of_two(inner), 128)
    blocks = -(-inner // rows)
    return rows, min(power_of_two(n), max(tile // rows, 1)), blocks, outer * blocks


def number(value: float, kind: Any) -> Any:
    """A number as a kernel that computes in `kind` takes it."""
    return (
        Double(value) if kind.itemsize == 8 and kind.kind == "f" else float(value) if kind.kind == "f" else int(value)
    )


# --- what all reductions share ------------------------------------------------------------------------------------------------


def reduced(
    op: str,
    input: CudaArray,
    dim: Any,
    keepdim: bool,
    kind: Any,
    compute: Any,
    term: str = "same",
    power: float = 0,
    finish: str = "none",
    parameter: float = 0,
) -> CudaArray:
    """`op` over `dim` of a term of each element, computed in `compute`, finished, in `kind`.

    Dims that lie one in the other in memory are one dim; groups of dims that do not are reduced one after the other, the innermost
    first.
    """
    key: Any = None
    if input.is_contiguous:
        ways = (batch_invariant(), _ENOUGH, tiles.__defaults__)
        key = (input.shape, dim, keepdim, op, kind, compute, term, power, finish, parameter, *ways)
    plan = _plans.get(key)
    array, back = input, None
    if plan is None:
        shape = kept_shape(input.shape, dim, keepdim)
        array, groups, back = _groups(input, dim)
        plan = (_launches(groups, op, kind, compute, term, power, finish, parameter), shape)
        if key is not None:
            if len(_plans) > 2000:
                _plans.clear()
            _plans[key] = plan
    launches, shape = plan
    index = input.device_index
    for number_of_launch, (grid, made_shape, made_kind, numbers, constants) in enumerate(launches):
        last = number_of_launch == len(launches) - 1 and back is None
        result = cuda_arrays.empty(shape if last else made_shape, made_kind, index)
        device.reduction(grid, array, result, *numbers, **constants)
        array = result
    if back is None:
        return array
    kept, order = back
    array = array.reshape(kept).transpose(order)
    return contiguous(array).reshape(shape)


def _launches(
    groups: list[tuple[int, bool]],
    op: str,
    kind: Any,
    compute: Any,
    term: str,
    power: float,
    finish: str,
    parameter: float,
) -> list[tuple[Any, ...]]:
    """(grid, shape and dtype of what it makes, numbers, constants) of each launch."""
    chosen = [place for place, (_, taken) in enumerate(groups) if taken]
    sizes = [size for size, _ in groups]
    if not chosen:
        chosen, sizes = [len(sizes)], [*sizes, 1]
    launches: list[tuple[Any, ...]] = []
    while chosen:
        place = chosen.pop()
        outer, n, inner = in_three(tuple(sizes), place)
        splits = 0
        while splits != 1:  # a row in segments is then a row of their results
            rows, block, blocks, programs = tiles(outer, n, inner)
            segment, splits = cut(n, block, programs)
            last = splits == 1 and not chosen
            exponent, ending = number(power, compute), number(parameter if last else 0, compute)
            constants = {
                "OP": op, "TERM": term, "FINISH": finish if last else "none", "FIRST": first_of(op, compute),
                "ACC": triton_type(compute), "INNER": inner > 1, "ROWS": rows, "BLOCK": block,
            }  # fmt: skip
            numbers = (outer, n, inner, blocks, splits, segment, exponent, ending)
            shape = (outer * splits * inner,)
            launches.append(((programs, splits), shape, kind if last else compute, numbers, constants))
            n, term = splits, "same"
        sizes.pop(place)
    return launches


def cut(n: int, block: int, programs: int) -> tuple[int, int]:
    """(how many elements of a row a program takes, how many segments that makes): several where there are few rows."""
    if batch_invariant():
        segment = _SEGMENT * block
        return (segment, -(-n // segment)) if n > segment else (max(n, 1), 1)
    if programs >= _ENOUGH or n <= 4 * block or not programs:
        return max(n, 1), 1
    splits = min(-(-n // (4 * block)), -(-2 * _ENOUGH // programs))
    size = -(-n // splits)
    segment = -(-size // block) * block
    return segment, -(-n // segment)


def first_of(op: str, compute: Any) -> Any:
    if op in ("sum", "prod"):
        return int(op == "prod")
    if compute.kind == "f":
        return float("-inf") if op == "max" else float("inf")
    bounds = numpy.iinfo(compute)
    return int(bounds.min) if op == "max" else int(bounds.max)


def _groups(input: CudaArray, dim: Any) -> tuple[CudaArray, list[tuple[int, bool]], Any]:
    """(the array in row-major order, its sizes from outside in with whether each is reduced, how to order what is kept or None)."""
    shape = input.shape
    dims = set(dims_of(len(shape), dim))
    order: Any = range(len(shape))
    if not input.is_contiguous:
        order = sorted(order, key=lambda place: -input.strides[place])
        moved = input.transpose(tuple(order))
        if min(input.strides) >= 0 and moved.is_contiguous:
            input = moved
        else:
            input, order = input.copy(), range(len(shape))
    groups: list[tuple[int, bool]] = []
    for place in order:
        size, taken = shape[place], place in dims
        if size == 1:
            continue
        if groups and groups[-1][1] == taken:
            groups[-1] = (groups[-1][0] * size, taken)
        else:
            groups.append((size, taken))
    kept = [place for place in order if place not in dims]
    if kept == sorted(kept):
        return input, groups, None
    places = [kept.index(place) for place in sorted(kept)]
    return input, groups, (tuple([shape[place] for place in kept]), tuple(places))
