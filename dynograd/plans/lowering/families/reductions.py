"""Sums and means over dims, and what gradients of broadcast operands are summed to."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy

from dynograd.kernels.build import threads
from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.kernels.reduce.blocks_cpu import BLOCK
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__ = ["EXTREMES", "as_bits", "dims_of", "reduced", "sum_to", "summed"]

EXTREMES = frozenset({"max", "min"})

_EXTREME_BLOCK = 1 << 16  # as in `blocks_cpu`
_WIDE = 128  # columns from which threads share them
_LONG = 1 << 17  # elements from which threads share fewer columns, or a row
_COUNT = formulas.parse("x / count")


def dims_of(dim: Any, rank: int) -> tuple[int, ...]:
    """The dims that a reduction takes, counted from the front."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(rank))
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    return tuple([place % rank if rank else 0 for place in dims]) if rank else ()


def _is_reduced(join: str, term: str, kind: Any, result: Any) -> bool:
    """Whether there are kernels for these dtypes."""
    if join == "sum" and result == numpy.int64:
        return (kind.kind in "ib" and term == "same") or (
            kind.kind in "fi" and kind.itemsize >= 4 and term == "nonzero"
        )
    if kind != result:
        return False
    return kind.name in ("float32", "float64") or (join in EXTREMES and kind.name in ("int32", "int64", "bool"))


def reduced(join: str, term: str, source: Any, dims: Sequence[int], target: Any) -> list[Launch] | None:
    """Launches that write `source`, reduced over `dims` (see `blocks_cpu.reduced`), into the row-major order of the other dims of `target`."""
    if not _is_reduced(join, term, source.dtype, target.dtype):
        return None
    if source.dtype.kind == "b":
        source = source.view(numpy.uint8)
        target = target.view(numpy.uint8) if target.dtype.kind == "b" else target
    if not source.size:
        return layouts.fill(target, 0) if join == "sum" and term == "same" else None
    before: list[Launch] = []
    order = layouts.memory_order(source)
    kept = [axis for axis in range(source.ndim) if axis not in dims]
    in_order = [axis for axis in order if axis not in dims] == kept or all([source.shape[axis] == 1 for axis in kept])
    if not (source.transpose(order).flags.c_contiguous and in_order):
        order = list(range(source.ndim))
        if not source.flags.c_contiguous:
            copied = layouts.scratch(source.shape, source.dtype)
            put = layouts.copy(copied, source)
            if put is None:
                return None
            before, source = put, copied
    groups: list[list[int]] = []  # [size, whether it goes]
    for axis in order:
        goes = int(axis in dims)
        if groups and groups[-1][1] == goes:
            groups[-1][0] *= source.shape[axis]
        else:
            groups.append([source.shape[axis], goes])
    groups = [group for group in groups if group[0] != 1]
    vector = layouts.flat(source)
    behind: list[Launch] = []
    if not target.flags.c_contiguous:
        whole = layouts.scratch(target.shape, target.dtype)
        put = layouts.copy(target, whole)
        if put is None:
            return None
        behind = put
    else:
        whole = target
    result = layouts.flat(whole)
    pending = sum([goes for _, goes in groups])
    if not pending:
        if term != "same" or source.dtype != target.dtype:
            return None
        put = layouts.copy(result.reshape(-1), vector.reshape(-1))
        return None if put is None else [*before, *put, *behind]
    launches: list[Launch] = []
    for position in range(len(groups) - 1, -1, -1):
        n, goes = groups[position]
        if goes:
            pending -= 1
            outer = prod([size for size, _ in groups[:position]])
            inner = prod([size for size, later in groups[position + 1 :] if not later])
            out = result if not pending else layouts.scratch((outer * inner,), target.dtype)
            _step(launches, join, term, vector, outer, n, inner, out)
            vector, term = out, "same"
    return [*before, *launches, *behind]


def summed(source: Any, dims: Sequence[int], target: Any) -> list[Launch] | None:
    """The same for sums of floating numbers, which are as many launches whatever the sizes are."""
    return reduced("sum", "same", source, dims, target) if source.dtype.kind == "f" else None


def _step(launches: list[Launch], join: str, term: str, x: Any, outer: int, n: int, inner: int, out: Any) -> None:
    """Appends what reduces (outer, n, inner) to (outer, inner), flat."""
    from dynograd.kernels.reduce import reductions_numba

    if join == "sum" and term == "same" and x.dtype.kind == "f":
        _sum_evenly(launches, x, outer, n, inner, out)
        return
    work = outer * n * inner // 2
    if inner == 1:
        block = _EXTREME_BLOCK if join in EXTREMES else BLOCK
        blocks = -(-n // block)
        target = out if blocks == 1 else layouts.scratch((outer * blocks,), out.dtype)
        arguments: tuple[Any, ...] = (x, n, block, blocks, target)
        count = outer * blocks
        if join in EXTREMES:
            arguments = (x, *as_bits(x), n, block, blocks, join == "max", target)
        kernel = reductions_numba.extreme_rows if join in EXTREMES else reductions_numba.rows(join, term)
    else:
        blocks, tiles = -(-n // reductions_numba.ROWS), -(-inner // reductions_numba.TILE)
        target = out if blocks == 1 else layouts.scratch((outer * blocks * inner,), out.dtype)
        arguments = (x, n * inner, n, inner, target)
        count = outer * blocks * tiles
        kernel = reductions_numba.columns(join, term)
    launches.append(Launch(kernel, arguments, count, layouts.parts_of(work, count)))
    if blocks > 1:
        _step(launches, join, "same", target, outer, blocks, inner, out)


def _sum_evenly(launches: list[Launch], x: Any, outer: int, n: int, inner: int, out: Any) -> None:
    from dynograd.kernels.reduce import even_sums_numba

    work, most = outer * n * inner // 2, threads.get_num_threads()
    cuts = most if inner >= _WIDE else 1
    shares = most if cuts == outer == 1 and n * inner >= _LONG else 1
    target = out if shares == 1 else layouts.scratch((outer * shares * inner,), out.dtype)
    count = outer * shares * cuts
    if inner == 1:
        launch = Launch(even_sums_numba.row_sums, (x, n, shares, target), count, layouts.parts_of(work, count))
    else:
        arguments = (x, n, inner, shares, cuts, target)
        launch = Launch(even_sums_numba.column_sums, arguments, count, layouts.parts_of(work, count))
    launches.append(launch)
    if shares > 1:
        _sum_evenly(launches, target, outer, shares, inner, out)


def as_bits(vector: Any) -> tuple[Any, Any]:
    """Its memory as whole numbers with a sign, and without one, by which kernels find extremes."""
    return vector.view(f"i{vector.itemsize}"), vector.view(f"u{vector.itemsize}")


def sum_to(source: Any, target: Any) -> list[Launch] | None:
    """Launches that sum the dims over which `target` would be stretched to `source`'s shape."""
    lead = source.ndim - target.ndim
    if lead < 0:
        return None
    dims = [*range(lead)]
    dims += [place + lead for place, size in enumerate(target.shape) if size == 1 and source.shape[place + lead] != 1]
    if not dims:
        return layouts.copy(target, source)
    kept = [size for axis, size in enumerate(source.shape) if axis not in dims]
    if prod(kept) != target.size:
        return None
    return summed(source, dims, target)


# --- ops --------------------------------------------------------------------------------------------------------------------


@form("op", "sum")
def _sum(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    source, target = arguments["input"], call.outputs[0]
    launches = reduced("sum", "same", source, dims_of(arguments["dim"], source.ndim), target)
    return None if launches is None else Lowered(launches, exact=target.dtype.kind == "i")


@form("op", "sum_to")
def _sum_to(call: Call) -> Lowered | None:
    source, target = call.inputs[0], call.outputs[0]
    if target is None:
        return Lowered()
    launches = sum_to(source, target)
    return None if launches is None else Lowered(launches, exact=False)


@form("op", "mean")
def _mean(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    source, target = arguments["input"], call.outputs[0]
    total = layouts.scratch(target.shape, target.dtype)
    launches = summed(source, dims_of(arguments["dim"], source.ndim), total)
    if launches is None or not target.size or not source.size:
        return None
    count = source.size // target.size
    divided = loops.launches_of("mean", [_COUNT], [target], {"x": total}, {"count": float(count)})
    return None if divided is None else Lowered([*launches, *divided], exact=False)


@form("rule", "sum", "mean")
def _spread(call: Call) -> Lowered | None:
    """The gradient at every element that went into it, stretched over the dims that it was summed over."""
    g, output = call.inputs[0], call.outputs[0]
    if output is None:
        return Lowered()
    once = layouts.repeated_once(output)
    count = output.size // g.size if call.name == "mean" and g.size else 1
    before: list[Launch] = []
    g = layouts.row_major(g, before)
    shape = None if g is None else _kept_shape(g, once)
    if g is None or shape is None:
        return None
    launches = loops.launches_of("mean_backward", [_COUNT], [once], {"x": g.reshape(shape)}, {"count": float(count)})
    return None if launches is None else Lowered([*before, *launches])


def _kept_shape(g: Any, once: Any) -> tuple[int, ...] | None:
    """`g`'s shape with the reduced dims as 1, where the gradient without repetitions is `once`."""
    if g.size == 1:
        return (1,) * once.ndim
    if g.size != once.size or not g.flags.c_contiguous:
        return None
    return tuple(once.shape)
