"""The rule of ops without a better one: rows of equal shape are computed together, as the dense batches that they are.

An op that treats dim 0 as a batch gives the same for each row in any batch, so rows are put in order of their shapes, each group goes through
the op at once, and the results are put back in order. Only real elements are computed; the price is one call for each shape that occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from dynograd import arrays
from dynograd.base.shapes import Size
from dynograd.ops.layout.joins import cat
from dynograd.ragged.calls import Call, own_function
from dynograd.ragged.families.levels import DIMS, SHARED, is_deep, lifted
from dynograd.ragged.invoking import invoke, run
from dynograd.ragged.partitions import Partition, RaggedSize, Shapes, shown
from dynograd.ragged.probing import dims_that_follow, probed
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.ragged.uniform import dim_first
from dynograd.tensor.creation import zeros
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Groups", "Source", "back_in_order", "grouped", "grouped_function", "index_of", "joined"]


def index_of(places: np.ndarray, like: Any) -> Any:
    """Places of the host as an index tensor beside `like`."""
    return wrap(arrays.to_device(places, arrays.place_of(like.array)))


def grouped(call: Call, owns: Callable[[str, int], bool] | None = None) -> Any:
    """The op on each group of rows of equal shape.

    A dense argument of as many dims, and as many rows, has one entry for each row; `owns(name, place in a list)` says so where that is no sign.
    """
    ragged = call.ragged()
    if any([is_deep(x) for x in ragged]):
        return lifted(call)
    call.arguments = {
        name: tuple(value) if isinstance(value, Size) else value for name, value in call.arguments.items()
    }
    count = ragged[0].partition.count
    for x in ragged[1:]:
        if x.partition.count != count:
            ragged[0].partition.check_same(call.name, x.partition)
    _check_dims(call, ragged)
    groups = Groups(ragged, _named_sizes(call, count))
    rank = max(x.ndim for x in ragged)
    sources = {id(x): Source(x, groups) for x in ragged}

    def has_rows(name: str, number: int, value: Any) -> bool:
        if owns is not None:
            return owns(name, number)
        return name not in SHARED and value.ndim == rank and value.shape[0] == count

    by_group: list[Any] = []
    for number, rows in enumerate(groups.rows):

        def own(name: str, value: Any, at: int = 0, number: int = number, rows: np.ndarray = rows) -> Any:
            if isinstance(value, RaggedTensor):
                return sources[id(value)].dense(number)
            if isinstance(value, RaggedSize):  # `interpolate(x, y.shape[2:])`
                return int(value.partition.lengths[rows[0]])
            if type(value) in (list, tuple):
                return type(value)(own(name, entry, place) for place, entry in enumerate(value))
            if isinstance(value, Tensor) and value.ndim and not groups.whole and has_rows(name, at, value):
                return run("index", value, [index_of(rows, value)], (0,))
            return value

        by_group.append(_run(call, {name: own(name, value) for name, value in call.arguments.items()}))
    return joined(call, ragged, groups, by_group, owns=owns)


def _named_sizes(call: Call, count: int) -> list[Partition]:
    """The sizes of rows that the call names, as in `interpolate(x, y.shape[2:])`."""
    parts = [value.partition for _, value in call.leaves() if isinstance(value, RaggedSize)]
    for part in parts:
        if part.count != count:
            raise call.refuse(f"the sizes {shown(part.lengths)} are those of {part.count} rows, but there are {count}.")
    return parts


class _Function(Call):
    """A function that is no op of the table, as `grouped` sees it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        self.function, self.arguments = function, arguments
        self.key = self.name = function.__name__

    def on(self, arguments: dict[str, Any]) -> Any:
        return self.function(**arguments)


def grouped_function(function: Callable[..., Any], arguments: dict[str, Any], of_rows: Sequence[str] = ()) -> Any:
    """`function(**given)`, which is no op of the table, on each group of rows of equal shape; `of_rows` names dense arguments with rows."""
    return grouped(_Function(function, arguments), (lambda name, _: name in of_rows) if of_rows else None)


def _run(call: Call, arguments: dict[str, Any]) -> Any:
    if isinstance(call, _Function):
        return call.on(arguments)
    return invoke(own_function(call.key), call.op, arguments)


_NO_CHECK = frozenset(["diag_embed", "permute"])  # dims of the result


def _check_dims(call: Call, ragged: list[RaggedTensor]) -> None:
    rank = ragged[0].ndim
    for name in () if call.name in _NO_CHECK else DIMS & call.arguments.keys():
        value = call[name]
        for dim in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(dim, int) and not isinstance(dim, bool) and dim in (0, -rank):
                raise call.refuse(
                    f"dim 0 of a ragged tensor counts its rows, which have different lengths (shape {tuple(ragged[0].shape)}), so nothing "
                    f"can be computed across them. Use another dim, x.to_padded(), or x.unbind()."
                )


class Groups:
    """The rows of some ragged tensors by the shapes they have in all of them."""

    def __init__(self, ragged: list[RaggedTensor], named: Sequence[Partition] = ()) -> None:
        parts = list(named)
        for x in ragged:
            if not any([x.partition is part or x.partition.same(part) for part in parts]):
                parts.append(x.partition)
        self.count = parts[0].count
        if len(parts) == 1:
            self.__dict__ |= parts[0].kept("groups", lambda: self._of_shapes(parts[0]))
        else:
            sizes = np.concatenate(
                [part.sizes if isinstance(part, Shapes) else part.lengths[:, None] for part in parts], 1
            )
            self._of_shapes(Shapes(sizes, (None,) * sizes.shape[1]))

    def _of_shapes(self, part: Partition) -> dict[str, Any]:
        self.rows = [rows for _, rows in part.by_length()]
        self.order = np.concatenate(self.rows) if self.rows else np.zeros(0, np.int64)
        self.inverse = np.argsort(self.order, kind="stable")
        self.sorted = bool((self.order == np.arange(self.count)).all())
        self.whole = len(self.rows) == 1  # all rows in one group, in order
        return {name: getattr(self, name) for name in ("rows", "order", "inverse", "sorted", "whole")}


class Source:
    """The elements of a ragged tensor with its rows in the order of groups: each group is then a view."""

    def __init__(self, x: RaggedTensor, groups: Groups) -> None:
        self.x, self.groups = x, groups
        front = x.packed if x.place < 2 else run("permute", x.packed, dim_first(x.packed.ndim, x.place - 1))
        self.part = x.partition
        if not groups.sorted:
            self.part, places = x.partition.kept(
                ("in_order", groups.order.tobytes()), lambda: x.partition.of_rows(groups.order)
            )
            front = run("index", front, [index_of(places, front)], (0,))
        self.front = front
        self.firsts = np.cumsum([0] + [len(rows) for rows in groups.rows])

    def dense(self, number: int) -> Any:
        first, last = self.firsts[number], self.firsts[number + 1]
        begin, end = int(self.part.offsets[first]), int(self.part.offsets[last])
        rows = int(last - first)
        piece = run("basic_index", self.front, (slice(begin, end),))
        if isinstance(self.part, Shapes):
            return run("view", piece, (rows, *self.part.sizes[first].tolist()))
        dense = run("reshape", piece, (rows, int(self.part.lengths[first]), *piece.shape[1:]))
        place = self.x.place
        return dense if place == 1 else run("permute", dense, (0, *_from_front(dense.ndim - 1, place - 1, 1)))


def _from_front(rank: int, dim: int, shift: int = 0) -> tuple[int, ...]:
    """The order that puts dim 0 of `rank` dims at `dim`."""
    rest = [*range(1, rank)]
    rest.insert(dim, 0)
    return tuple([at + shift for at in rest])


def joined(
    call: Call, ragged: list[RaggedTensor], groups: Groups, by_group: list[Any], probe: Callable[..., Any] | None = None,
    owns: Callable[[str, int], bool] | None = None,
) -> Any:  # fmt: skip
    """The results of groups as one, in the order of the rows. `probe(call, arguments)` runs the op on a batch of one."""
    others: list[Any] = [] if by_group else probed(call, ragged, probe or _run, owns)
    if not by_group and not others:
        raise call.refuse(
            f"what shape its result has cannot be told from no rows (shape {tuple(ragged[0].shape)}). Leave empty batches out."
        )
    follow: Any = ()
    if by_group and not _tells(ragged, by_group):
        follow = dims_that_follow(call, ragged, probe or _run, owns)
    first = by_group[0] if by_group else others[0]
    if isinstance(first, (tuple, list)):
        results = [
            _join_one(
                call, ragged, groups, [result[place] for result in by_group], [other[place] for other in others],
                follow[place] if follow else follow,
            )
            for place in range(len(first))
        ]  # fmt: skip
        return type(first)(*results) if hasattr(first, "_fields") else type(first)(results)
    return _join_one(call, ragged, groups, by_group, others, follow[0] if follow else follow)


def _tells(ragged: list[RaggedTensor], by_group: list[Any]) -> bool:
    """Whether the results differ in as many dims as the rows do: then these are the dims that follow the ragged ones."""
    parts: list[Any] = []
    for x in ragged:
        if not any([x.partition.same(part) for part in parts]):
            parts.append(x.partition)
    sizes = [
        part.sizes[:, [size is None for size in part.fixed]] if isinstance(part, Shapes) else part.lengths[:, None]
        for part in parts
    ]
    together = np.concatenate(sizes, 1)
    if not len(together) or (together == together[0]).all(0).any():
        return False
    for results in zip(
        *[result if isinstance(result, (tuple, list)) else (result,) for result in by_group], strict=True
    ):
        shapes = [tuple(result.shape[1:]) for result in results if isinstance(result, Tensor)]
        if sum([len(set(dim)) > 1 for dim in zip(*shapes, strict=False)]) < together.shape[1]:
            return False
    return True


def _join_one(
    call: Call, ragged: list[RaggedTensor], groups: Groups, by_group: list[Any], others: list[Any], follow: Any
) -> Any:
    if by_group and not isinstance(by_group[0], Tensor):
        if all(result == by_group[0] for result in by_group):
            return by_group[0]
        raise call.refuse(f"it gives {by_group[0]!r} for some rows and other things for others. Use x.unbind().")
    if (
        by_group
        and all(not result.numel() and result.ndim == 1 for result in by_group)
        and any(len(rows) for rows in groups.rows)
    ):
        return by_group[0]  # what an op leaves empty (the residuals of lstsq)
    for rows, result in zip(groups.rows, by_group, strict=False):
        if not result.ndim or result.shape[0] != len(rows):
            raise call.refuse(
                f"it gives no result for each row (shape {tuple(result.shape)} for {len(rows)} rows). Use x.values(), x.to_padded() or x.unbind()."
            )
    shapes = [tuple(result.shape[1:]) for result in (*by_group, *others)]
    rank = len(shapes[0])
    dims = [dim for dim in range(rank) if len({shape[dim] for shape in shapes}) > 1 or (follow and dim in follow)]
    if follow is None and not dims and len(by_group) < 2:
        like = ragged[0]
        dims = [like.place - 1] if like.ndim - 1 == rank and like.place else []
    if not by_group:
        return _of_no_rows(ragged, others[0], dims)
    order = groups.inverse
    if not dims:
        whole = cat(by_group) if len(by_group) > 1 else by_group[0]
        return whole if groups.sorted else run("index", whole, [index_of(order, whole)], (0,))
    sizes = np.repeat(list(shapes[: len(by_group)]), [len(rows) for rows in groups.rows], axis=0).reshape(-1, rank)
    if len(dims) == 1:
        dim = dims[0]
        pieces = []
        for result in by_group:
            front = (
                result
                if not dim
                else run("permute", result, (0, dim + 1, *[at for at in range(1, rank + 1) if at != dim + 1]))
            )
            pieces.append(run("reshape", front, (front.shape[0] * front.shape[1], *front.shape[2:])))
        whole, part = back_in_order(pieces, Partition(np.ascontiguousarray(sizes[:, dim])), groups)
        for x in ragged:
            if x.partition.same(part) and not isinstance(x.partition, Shapes):
                part = x.partition
        whole = whole if not dim else run("permute", whole, _from_front(whole.ndim, dim))
        return make(whole, part, dim + 1)
    fixed = tuple(None if dim in dims else int(size) for dim, size in enumerate(shapes[0]))
    pieces = [run("reshape", result, (prod(result.shape),)) for result in by_group]
    whole, part = back_in_order(pieces, Shapes(sizes.astype(np.int64), fixed), groups)
    for x in ragged:
        if part.same(x.partition) and x.partition.fixed == fixed:  # type: ignore[attr-defined]
            part = x.partition
    return make(whole, part, 0)


def back_in_order(pieces: list[Any], part: Any, groups: Groups) -> tuple[Any, Any]:
    whole = cat(pieces) if len(pieces) > 1 else pieces[0]
    if groups.sorted:
        return whole, part
    part, places = part.of_rows(groups.inverse)
    return run("index", whole, [index_of(places, whole)], (0,)), part


def _of_no_rows(ragged: list[RaggedTensor], like: Any, dims: list[int]) -> Any:
    shape = tuple(like.shape[1:])

    def nothing(*sizes: int) -> Any:
        """No elements, with the history of the arguments: a loss of an empty batch goes backward too."""
        empty = zeros(*sizes, dtype=like.dtype, device=like.device)
        if like.dtype.is_floating_point or like.dtype.is_complex:
            for x in ragged:
                if x.requires_grad:
                    values = run("view_as_real", x.packed) if x.dtype.is_complex else x.packed
                    empty = empty + run("sum", values, None, False).to(like.dtype)
        return empty

    if not dims:
        return nothing(0, *shape)
    if len(dims) == 1:
        sizes = [0 if dim == dims[0] else size for dim, size in enumerate(shape)]
        return make(nothing(*sizes), Partition(np.zeros(0, np.int64)), dims[0] + 1)
    fixed = tuple(None if dim in dims else size for dim, size in enumerate(shape))
    return make(nothing(0), Shapes(np.zeros((0, len(shape)), np.int64), fixed), 0)
