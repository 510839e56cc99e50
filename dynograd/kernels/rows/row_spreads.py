"""Values of tensors in one row, for fused kernels: moving them, computing with them, summing them.

A `Spread` has, for every place along its leading dims, pieces that together make up its last dim: (expression, width) pairs, where
None stands for zeros. Slicing, joining and reshaping move pieces and compute nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy

from dynograd.kernels.formula import formulas
from dynograd.kernels.formula.formulas import Tree
from dynograd.kernels.rows.row_expressions import Expressions, Piece


class Spread:
    """The value of a tensor of `shape` in one row: `lanes[leading dims]` is a tuple of pieces along the last dim."""

    __slots__ = ("lanes", "shape")

    def __init__(self, shape: tuple[int, ...], lanes: Any) -> None:
        self.shape, self.lanes = shape, lanes

    @property
    def width(self) -> int:
        return self.shape[-1] if self.shape else 1

    def pieces(self) -> list[Piece]:
        """All pieces, in the order of a row-major tensor."""
        return [piece for lane in self.lanes.flat for piece in lane]

    def expressions(self) -> list[int]:
        return [expression for expression, _ in self.pieces() if expression is not None]


def _lanes(shape: tuple[int, ...], of: Callable[[int], Any]) -> Any:
    result = numpy.empty(shape[:-1], object)
    for number in range(result.size):
        result.flat[number] = of(number)
    return result


def of_leaf(table: Expressions, leaf: int, shape: tuple[int, ...]) -> Spread:
    """A leaf whose row holds the elements of `shape` one after the other."""
    width = shape[-1] if shape else 1

    def lane(number: int) -> tuple[Piece, ...]:
        offset = number * width
        return ((table.point(leaf, offset) if width == 1 else table.load(leaf, offset), width),)

    return Spread(shape, _lanes(shape, lane))


def filled(table: Expressions, value: Any, shape: tuple[int, ...] = ()) -> Spread:
    piece = (table.number(value), shape[-1] if shape else 1)
    return Spread(shape, _lanes(shape, lambda number: (piece,)))


def is_zero(value: Spread) -> bool:
    return all([expression is None for expression, _ in value.pieces()])


def _cut(table: Expressions, pieces: Any, start: int, stop: int) -> tuple[Piece, ...]:
    """The elements `start` to `stop` of pieces."""
    cut_pieces: list[Piece] = []
    at = 0
    for expression, width in pieces:
        low, high = max(start, at), min(stop, at + width)
        if low < high:
            if expression is not None:
                if high - low == 1:
                    expression = table.at(expression, low - at)
                else:
                    expression = table.moved(expression, low - at)
            cut_pieces.append((expression, high - low))
        at += width
    return tuple(cut_pieces)


def broadcast(table: Expressions, value: Spread, shape: tuple[int, ...]) -> Spread:
    """As `expand` does it."""
    if value.shape == shape:
        return value
    wide = shape[-1] if shape else 1
    lanes = value.lanes
    if value.width != wide:
        stretched = numpy.empty(lanes.shape, object)
        for number in range(lanes.size):
            ((expression, _),) = lanes.flat[number]
            stretched.flat[number] = ((expression, wide),)
        lanes = stretched
    return Spread(shape, numpy.broadcast_to(lanes, shape[:-1]))


def elementwise(table: Expressions, tree: Tree, names: dict[str, Spread], linear_in: str | None = None) -> Spread:
    """A formula on values that broadcast; where the one called `linear_in` is zero, so is the result."""
    shape = numpy.broadcast_shapes(*[name.shape for name in names.values()])
    wide = {name: broadcast(table, value, shape) for name, value in names.items()}

    def lane(number: int) -> tuple[Piece, ...]:
        lanes = {name: value.lanes.flat[number] for name, value in wide.items()}
        cuts = {0}
        for pieces in lanes.values():
            at = 0
            for _, width in pieces:
                at += width
                cuts.add(at)
        lane_pieces: list[Piece] = []
        ordered = sorted(cuts)
        for start, stop in pairwise(ordered):
            parts = {name: _cut(table, pieces, start, stop)[0][0] for name, pieces in lanes.items()}
            if linear_in is not None and parts[linear_in] is None:
                lane_pieces.append((None, stop - start))
                continue
            ready = {name: table.number(0) if part is None else part for name, part in parts.items()}
            lane_pieces.append((table.tree(tree, ready), stop - start))
        return tuple(lane_pieces)

    return Spread(tuple(shape), _lanes(tuple(shape), lane))


_SUM = formulas.parse("x + y")


def added(table: Expressions, left: Spread | None, other: Spread | None) -> Spread | None:
    """The sum of two values of one shape; None is zero, and zeros cost nothing."""
    if left is None or other is None:
        return other if left is None else left

    def lane(number: int) -> tuple[Piece, ...]:
        first, second = left.lanes.flat[number], other.lanes.flat[number]
        cuts = {0}
        for pieces in (first, second):
            at = 0
            for _, width in pieces:
                at += width
                cuts.add(at)
        ordered, result = sorted(cuts), []
        for start, stop in pairwise(ordered):
            x, y = _cut(table, first, start, stop)[0][0], _cut(table, second, start, stop)[0][0]
            result.append((y if x is None else x if y is None else table.apply("+", x, y), stop - start))
        return merged(table, result)

    return Spread(left.shape, _lanes(left.shape, lane))


def merged(table: Expressions, pieces: list[Piece]) -> tuple[Piece, ...]:
    """Neighbours that are runs of one leaf, or zeros, as one piece."""
    merged_pieces: list[Piece] = []
    for expression, width in pieces:
        if merged_pieces:
            before, so_far = merged_pieces[-1]
            if expression is None and before is None:
                merged_pieces[-1] = None, so_far + width
                continue
            if (
                expression is not None
                and before is not None
                and so_far > 1
                and table.moved(before, so_far) == (expression if width > 1 else None)
                and table.nodes[before][0] == "load"
            ):
                merged_pieces[-1] = before, so_far + width
                continue
        merged_pieces.append((expression, width))
    return tuple(merged_pieces)


def reduced(table: Expressions, head: str, value: Spread, keepdim: bool) -> Spread:
    """The sum or maximum along the last dim."""

    def lane(number: int) -> tuple[Piece, ...]:
        long: list[Piece] = []
        total: Any = None
        for expression, width in value.lanes.flat[number]:
            if expression is None:
                if head == "max":
                    expression = table.number(0.0)
                else:
                    continue
            if table.varies[expression]:
                long.append((expression, width))
                continue
            term = expression
            if head == "sum" and width > 1:
                term = table.apply("*", expression, table.number(float(width)))
            total = term if total is None else table.apply("+" if head == "sum" else "max", total, term)
        if long:
            result = table.reduce(head, tuple(long))
            total = result if total is None else table.apply("+" if head == "sum" else "max", total, result)
        return ((total, 1),)

    shape = (*value.shape[:-1], 1)
    spread = Spread(shape, _lanes(shape, lane))
    return spread if keepdim else reshaped(table, spread, value.shape[:-1])


def reduced_lanes(table: Expressions, head: str, value: Spread, axis: int, keepdim: bool) -> Spread:
    """The same along another dim than the last."""
    parts = numpy.moveaxis(value.lanes, axis, 0)
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])
    total: Spread | None = None
    for part in parts:
        spread = Spread(shape, numpy.asarray(part) if isinstance(part, numpy.ndarray) else _single(part))
        if head == "sum":
            total = added(table, total, spread)
        else:
            total = spread if total is None else elementwise(table, _MAX, {"x": total, "y": spread})
    assert total is not None
    return total if not keepdim else reshaped(table, total, (*value.shape[:axis], 1, *value.shape[axis + 1 :]))


_MAX = formulas.parse("max(x, y)")


def _single(lane: Any) -> Any:
    result = numpy.empty((), object)
    result[()] = lane
    return result


def fitted(table: Expressions, value: Spread, shape: tuple[int, ...]) -> Spread:
    """A gradient summed over the dims along which an operand of `shape` was stretched."""
    while len(value.shape) > len(shape):
        if len(value.shape) == 1:
            value = reduced(table, "sum", value, False)
        else:
            value = reduced_lanes(table, "sum", value, 0, False)
    for axis, size in enumerate(shape):
        if size == 1 and value.shape[axis] != 1:
            if axis == len(shape) - 1:
                value = reduced(table, "sum", value, True)
            else:
                value = reduced_lanes(table, "sum", value, axis, True)
    return value


def reshaped(table: Expressions, value: Spread, shape: tuple[int, ...]) -> Spread:
    if value.shape == shape:
        return value
    pieces = value.pieces()
    width = shape[-1] if shape else 1
    if width == value.width and math.prod(shape) == math.prod(value.shape):
        result = numpy.empty(shape[:-1], object)
        for number, lane in enumerate(value.lanes.flat):
            result.flat[number] = lane
        return Spread(shape, result)
    return Spread(
        shape,
        _lanes(shape, lambda number: merged(table, list(_cut(table, pieces, number * width, (number + 1) * width)))),
    )


def index_of(table: Expressions, value: Spread, index: tuple) -> Spread | None:
    """`value[index]` for ints, slices with step 1 along the last dim, None and Ellipsis; None where that is not enough."""
    index = tuple(index)
    dims = sum([entry is not None and entry is not Ellipsis for entry in index])
    if Ellipsis in index:
        at = index.index(Ellipsis)
        index = (*index[:at], *(slice(None),) * (len(value.shape) - dims), *index[at + 1 :])
    else:
        index = (*index, *(slice(None),) * (len(value.shape) - dims))
    if not value.shape:
        return reshaped(table, value, (1,) * len(index))
    last = max([place for place, entry in enumerate(index) if entry is not None])
    chosen, after = index[last], len(index) - last - 1
    lanes = value.lanes[index[:last]] if last else value.lanes
    lanes = lanes if isinstance(lanes, numpy.ndarray) and lanes.dtype == object else _single(lanes)
    if isinstance(chosen, slice):
        start, stop, step = chosen.indices(value.shape[-1])
        if step != 1 or stop <= start:
            return None
        width = stop - start
    else:
        start = chosen + value.shape[-1] if chosen < 0 else chosen
        stop, width = start + 1, None
    result = numpy.empty(lanes.shape, object)
    for number, lane in enumerate(lanes.flat):
        result.flat[number] = _cut(table, lane, start, stop)
    spread = Spread((*lanes.shape, stop - start), result)
    tail = (1,) * after
    return reshaped(table, spread, (*lanes.shape, *(() if width is None else (width,)), *tail))


def placed(table: Expressions, g: Spread, shape: tuple[int, ...], index: tuple) -> Spread:
    """The gradient of `index_of`: zeros of `shape` with `g` at the index."""
    count = math.prod(shape)
    places = numpy.arange(count).reshape(shape)[index].reshape(-1).tolist()
    pieces: list[Piece] = []
    flat = reshaped(table, g, (len(places),)).pieces() if places else []
    at = done = 0
    for expression, width in flat:  # places of a piece are runs, row by row
        start = 0
        while start < width:
            stop = start + 1
            while stop < width and places[done + stop] == places[done + stop - 1] + 1:
                stop += 1
            first = places[done + start]
            if first > at:
                pieces.append((None, first - at))
            pieces += _cut(table, ((expression, width),), start, stop)
            at = first + stop - start
            start = stop
        done += width
    if at < count:
        pieces.append((None, count - at))
    return reshaped(table, Spread((count,), _single(tuple(pieces))), shape)


def joined(values: list[Spread], axis: int) -> Spread:
    """`cat`."""
    rank = len(values[0].shape)
    shape = list(values[0].shape)
    shape[axis] = sum([value.shape[axis] for value in values])
    if axis != rank - 1:
        return Spread(tuple(shape), numpy.concatenate([value.lanes for value in values], axis))
    result = numpy.empty(tuple(shape[:-1]), object)
    for number in range(result.size):
        result.flat[number] = tuple([piece for value in values for piece in value.lanes.flat[number]])
    return Spread(tuple(shape), result)


def stacked(table: Expressions, values: list[Spread], axis: int) -> Spread | None:
    shape = values[0].shape
    if axis == len(shape) and shape:
        return None
    return joined([reshaped(table, value, (*shape[:axis], 1, *shape[axis:])) for value in values], axis)


def permuted(value: Spread, dims: tuple[int, ...]) -> Spread | None:
    """None where another dim becomes the last."""
    rank = len(value.shape)
    if not rank or dims[-1] != rank - 1:
        return None
    return Spread(tuple([value.shape[dim] for dim in dims]), value.lanes.transpose(dims[:-1]))
