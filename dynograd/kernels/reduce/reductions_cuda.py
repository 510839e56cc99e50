"""Reductions on CudaArrays. `dim` is None (all), an int or a tuple of ints. Half types are accumulated in float32."""

from __future__ import annotations

from math import nan, prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.build.launching_cuda import Double
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


def with_kept(found: Any, shape: tuple[int, ...], dim: Any) -> Any:
    """A result of a reduction of an array of that shape, so that it broadcasts against it."""
    return found.reshape(kept_shape(shape, dim, True))


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
        made = cuda_arrays.empty(shape if last else made_shape, made_kind, index)
        device.reduction(grid, array, made, *numbers, **constants)
        array = made
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
    made: list[tuple[Any, ...]] = []
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
            made.append(((programs, splits), shape, kind if last else compute, numbers, constants))
            n, term = splits, "same"
        sizes.pop(place)
    return made


def cut(n: int, block: int, programs: int) -> tuple[int, int]:
    """(how many elements of a row a program takes, how many segments that makes): several where there are few rows."""
    if batch_invariant():
        segment = _SEGMENT * block
        return (segment, -(-n // segment)) if n > segment else (max(n, 1), 1)
    if programs >= _ENOUGH or n <= 4 * block or not programs:
        return max(n, 1), 1
    wanted = min(-(-n // (4 * block)), -(-2 * _ENOUGH // programs))
    size = -(-n // wanted)
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


# --- sums ----------------------------------------------------------------------------------------------------------------


def sum(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    if kind.kind in "iub":
        return reduced("sum", input, dim, keepdim, _INT64, _INT64)
    return reduced("sum", input, dim, keepdim, kind, computed(kind))


def sum_to(input: Any, shape: tuple[int, ...]) -> Any:
    lead = input.ndim - len(shape)
    dims = (
        *range(lead),
        *[place + lead for place, size in enumerate(shape) if size == 1 and input.shape[place + lead] != 1],
    )
    if not dims:
        return input
    kind = input.dtype
    compute = _INT64 if kind.kind in "iub" else computed(kind)
    return reduced("sum", input, dims, True, kind, compute).reshape(shape)


def spread(g: Any, shape: tuple[int, ...], dim: Any, keepdim: bool) -> Any:
    """`g`, the gradient of a sum, at every element that went into it: a view with stride 0 where it repeats."""
    if dim is None:
        return g.as_strided(shape, (0,) * len(shape))
    places = dims_of(len(shape), dim)
    remaining = iter(g.strides)
    steps = []
    for place in range(len(shape)):
        if place not in places:
            steps.append(next(remaining))
            continue
        steps.append(0)
        if keepdim:
            next(remaining)
    return g.as_strided(shape, tuple(steps))


def mean_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    count = prod([input.shape[place] for place in dims_of(input.ndim, dim)])
    return reduced("sum", input, dim, keepdim, kind, computed(kind), finish="divide", parameter=count or nan)


def count_nonzero(input: Any, dim: Any) -> Any:
    if input.dtype.kind in "iub":
        return reduced("sum", input, dim, False, _INT64, _INT64, "nonzero")
    if input.dtype.itemsize <= 4:  # a float32 counts to 2^24 only; a truth is a small integer
        input = input != 0
        return reduced("sum", input, dim, False, _INT64, _INT64)
    found = reduced("sum", input, dim, False, input.dtype, input.dtype, "nonzero")
    return found.astype(_INT64)


def zero_nan(input: Any) -> Any:
    """`input` with 0 in place of NaN."""
    return operations.elementwise("where", input == input, input, 0.0)


def not_nan(input: Any) -> Any:
    """1 where `input` is a number, 0 where it is NaN, in the dtype of `input`."""
    return (input == input).astype(input.dtype)


# --- truth ---------------------------------------------------------------------------------------------------------------


def any(input: Any, dim: Any, keepdim: bool) -> Any:
    return _truth("max", input, dim, keepdim)


def all(input: Any, dim: Any, keepdim: bool) -> Any:
    return _truth("min", input, dim, keepdim)


def _truth(op: str, input: Any, dim: Any, keepdim: bool) -> Any:
    """Whether the largest (or least) of the truths is 1; NaN is not zero."""
    kind = _UINT8 if input.dtype == _UINT8 else _BOOL
    count = prod([input.shape[place] for place in dims_of(input.ndim, dim)])
    if not count:
        made = cuda_arrays.empty(kept_shape(input.shape, dim, keepdim), kind, input.device_index)
        made.fill(op == "min")
        return made
    compute = input.dtype if input.dtype.kind == "f" and input.dtype.itemsize >= 4 else computed(input.dtype)
    if compute.kind in "iub":
        compute = _INT64 if compute.itemsize == 8 else _INT32
    return reduced(op, input, dim, keepdim, kind, compute, "nonzero")


# --- products ------------------------------------------------------------------------------------------------------------


def prod_forward(input: Any, dim: Any, keepdim: bool) -> Any:
    kind = input.dtype
    if kind.kind in "iub":
        return reduced("prod", input, dim, keepdim, _INT64, _INT64)
    return reduced("prod", input, dim, keepdim, kind, computed(kind))


def prod_backward(g: Any, input: Any, output: Any, dim: Any, keepdim: bool) -> Any:
    """g times the product of all the other elements, whatever zeros there are: of those before and those behind each."""
    from dynograd.kernels.reduce import scans_cuda

    kind, shape = input.dtype, input.shape
    dims = dims_of(len(shape), dim)
    g = with_kept(widened(g), shape, dim)
    if not dims:
        return g.astype(kind, copy=False)
    wide = widened(input)
    rows = wide.reshape((wide.size,)) if len(dims) == len(shape) else wide
    place = 0 if rows.ndim == 1 else dims[0]
    before = scans_cuda.cumprod_forward(scans_cuda.behind_one(rows, place), place)
    turned = scans_cuda.reversed_along(rows, place)
    behind = scans_cuda.cumprod_forward(scans_cuda.behind_one(turned, place), place)
    others = (before * scans_cuda.reversed_along(behind, place)).reshape(shape)
    return (g * others).astype(kind, copy=False)
