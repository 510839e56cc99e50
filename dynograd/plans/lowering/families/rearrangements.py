"""The same elements in another order, several times, in triangles and on diagonals; and the sums that undo these."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.formula import formulas
from dynograd.kernels.layout.views_cpu import unfold_forward
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts, loops
from dynograd.plans.lowering.families import reductions
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import rules_in_parts

__all__ = ["added"]

_SUM = formulas.parse("x + y")
_MOST_ADDED = 64  # elements of a window, each of which takes a launch


def _lowered(*parts: list[Launch] | None, exact: bool = True) -> Lowered | None:
    launches: list[Launch] = []
    for part in parts:
        if part is None:
            return None
        launches += part
    return Lowered(launches, exact)


def added(target: Any, other: Any) -> list[Launch] | None:
    """target += other, of its shape."""
    return loops.launches_of("add", [_SUM], [target], {"x": target, "y": other})


@form("op", "flip")
def _flip(call: Call) -> Lowered | None:
    arguments = arguments_of(call)
    x, dims = arguments["input"], arguments["dims"]
    turned = layouts.part_of(x, [slice(None, None, -1) if dim in dims else slice(None) for dim in range(x.ndim)])
    return _lowered(layouts.copy(call.outputs[0], turned))


@form("op", "roll")
def _roll(call: Call) -> Lowered | None:
    """The parts in front of the cuts and behind them, of each dim."""
    arguments, target = arguments_of(call), call.outputs[0]
    x = arguments["input"]
    moves = dict.fromkeys(arguments["dims"], 0)
    for shift, dim in zip(arguments["shifts"], arguments["dims"]):
        moves[dim] += shift
    pieces = []
    for dim, size in enumerate(x.shape):
        cut = -moves.get(dim, 0) % size if size else 0
        both = [(slice(0, size - cut), slice(cut, size)), (slice(size - cut, size), slice(0, cut))]
        pieces.append(both if cut else both[:1])
    copies = []
    for chosen in product(*pieces):
        into, of = tuple([piece[0] for piece in chosen]), tuple([piece[1] for piece in chosen])
        copies.append(layouts.copy(layouts.part_of(target, into), layouts.part_of(x, of)))
    return _lowered(*copies)


# --- several times --------------------------------------------------------------------------------------------------------------


def _split(array: Any, dims: list[tuple[int, int]]) -> numpy.ndarray:
    """Row-major memory with each dim as two."""
    split: numpy.ndarray = array.reshape([size for pair in dims for size in pair])
    return split


@form("op", "repeat")
def _repeat(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    x, counts = arguments["input"], arguments["repeats"]
    if not target.flags.c_contiguous:
        return None
    once = _split(x, [(1, size) for size in x.shape])
    return _lowered(layouts.copy(_split(target, list(zip(counts, x.shape))), once))


@form("op", "repeat_backward")
def _sum_repeats(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    shape, counts = arguments["shape"], arguments["repeats"]
    copies = _split(arguments["g"], list(zip(counts, shape)))
    return _lowered(reductions.reduced("sum", "same", copies, range(0, 2 * len(shape), 2), target), exact=False)


def _runs(shape: Any, dim: int, repeats: int) -> list[int]:
    return [*shape[: dim + 1], repeats, *shape[dim + 1 :]]


@form("op", "repeat_interleave")
def _interleave(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    x, dim, repeats = arguments["input"], arguments["dim"], arguments["repeats"]
    if not target.flags.c_contiguous:
        return None
    return _lowered(layouts.copy(target.reshape(_runs(x.shape, dim, repeats)), numpy.expand_dims(x, dim + 1)))


@form("op", "repeat_interleave_backward")
def _sum_interleaved(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    dim = arguments["dim"]
    runs = arguments["g"].reshape(_runs(target.shape, dim, arguments["repeats"]))
    return _lowered(reductions.reduced("sum", "same", runs, (dim + 1,), target), exact=False)


# --- triangles, diagonals, windows ------------------------------------------------------------------------------------------------


@form("op", "tril", "triu")
def _triangle(call: Call) -> Lowered | None:
    from dynograd.kernels.layout.copies_numba import copy_triangle

    arguments, target = arguments_of(call), call.outputs[0]
    x, diagonal = arguments["input"], arguments["diagonal"]
    before: list[Launch] = []
    behind: list[Launch] = []
    x, whole = layouts.row_major(x, before), layouts.to_be_written(target, behind)
    if x is None or whole is None or x.itemsize not in (1, 2, 4, 8) or type(diagonal) is not int:
        return None
    kind, (rows, columns) = numpy.dtype(f"u{x.itemsize}"), x.shape[-2:]
    if x.size:
        count = x.size // columns
        lines = layouts.flat(x, kind), rows, columns, diagonal, call.name == "tril", layouts.flat(whole, kind)
        before.append(Launch(copy_triangle, lines, count, layouts.parts_of(x.size, count)))
    return _lowered(before, behind)


def _diagonal_of(target: Any, arguments: dict[str, Any]) -> numpy.ndarray:
    dims = [arguments[name] % target.ndim for name in ("dim1", "dim2")]
    diagonal: numpy.ndarray = target.diagonal(arguments["offset"], *dims)
    return diagonal


@form("op", "diagonal_backward")
def _fill_diagonal(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    return _lowered(layouts.fill(target, 0), layouts.copy(_diagonal_of(target, arguments), arguments["g"]))


@form("op", "diagonal_put")
def _put_diagonal(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    place, source = _diagonal_of(target, arguments), arguments["src"]
    put = layouts.copy(place, numpy.zeros((), target.dtype) if source is None else source)
    return _lowered(layouts.copy(target, arguments["input"]), put)


@form("op", "unfold_backward")
def _sum_windows(call: Call) -> Lowered | None:
    arguments, target = arguments_of(call), call.outputs[0]
    g, dim = arguments["g"], arguments["dimension"] % target.ndim if target.ndim else 0
    size, step = arguments["size"], arguments["step"]
    if not target.ndim or size > _MOST_ADDED:
        return None
    if step >= size:
        return _lowered(layouts.fill(target, 0), layouts.copy(unfold_forward(target, dim, size, step), g))
    lead, reach = (slice(None),) * dim, (g.shape[dim] - 1) * step + 1
    sums = [added(target[(*lead, slice(place, place + reach, step))], g[..., place]) for place in range(size)]
    return _lowered(layouts.fill(target, 0), *sums, exact=True)


rules_in_parts(
    "flip", "roll", "repeat", "repeat_backward", "repeat_interleave", "repeat_interleave_backward", "tril", "triu", "diagonal",
    "diagonal_backward", "diagonal_put", "unfold", "unfold_backward", "basic_fill", "basic_put", "index_backward",
)  # fmt: skip
