"""Elementwise ops: computed on packed elements. Dense operands broadcast as they would with each row.

Dims are aligned at the end, as always: (D,) and (1, D) with the features, (B, 1, D) gives each row its own, repeated for its elements, and so
does (B,) beside a ragged tensor of shape (B, j). Two ragged operands need equal lengths.
"""

from __future__ import annotations

from math import prod
from typing import Any

from dynograd.errors import ShapeError
from dynograd.ops.segment.segments import COMBINATIONS
from dynograd.ragged.calls import Call, results
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Shapes, shown
from dynograd.ragged.tensor import RaggedTensor
from dynograd.ragged.uniform import as_dense, as_ragged
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["aligned", "elementwise", "repeated", "spread"]


def elementwise(call: Call) -> Any:
    """The op on packed elements; NotImplemented where operands are ragged in different dims."""
    for name in call.op.array_names:
        if not isinstance(call[name], Tensor) and hasattr(call[name], "dtype"):
            call.arguments[name] = wrap(call[name])  # a raw array, which ops pass one another
    operands = {name: call[name] for name in call.op.array_names}
    aligned_operands = _rectangles(operands)
    if aligned_operands is not None:
        like, packed = aligned_operands
        return results(call.with_(**packed), lambda x: as_ragged(x, like))
    if call.name in _COMBINED:
        combination = _combined(call.name, call["input"], call["other"])
        if combination is not None:
            return combination
    aligned_operands = aligned(call.name, operands)
    if aligned_operands is None:
        return NotImplemented
    like, packed = aligned_operands
    return results(call.with_(**packed), like.with_packed)


_COMBINED = frozenset([*COMBINATIONS, "sub"])


def _combined(how: str, x: Any, other: Any) -> Any:
    """Rows (B, j, *) with something that each row has of its own (B, 1, *), without repeating that; None where it is not that."""
    if not isinstance(x, RaggedTensor):
        if how in ("sub", "div"):
            return None
        x, other = other, x
    packed, part = x.packed, x.partition
    if (
        x.place != 1
        or isinstance(other, RaggedTensor)
        or not isinstance(other, Tensor)
        or isinstance(packed, RaggedTensor)
    ):
        return None
    shape, rest = tuple(other.shape), tuple(packed.shape)[1:]
    if len(shape) == 1 and not rest:
        shape = (*shape, 1)
    own = shape[2:] == rest or all([size == 1 for size in shape[2:]])
    if len(shape) != x.ndim or shape[:2] != (part.count, 1) or not own or isinstance(part, Shapes) or part.count == 1:
        return None
    if other.dtype is not packed.dtype or not packed.dtype.is_floating_point or packed.dtype.itemsize < 4:
        return None
    if how == "sub":
        how, other = "add", run("neg", other)
    flat = run("reshape", packed, (part.total, prod(rest)))
    own_values = run("reshape", other, (part.count, prod(shape[2:])))
    starts, ends = part.tensor("starts", packed.device), part.tensor("ends", packed.device)
    return x.with_packed(run("view", run("segment_combine", flat, own_values, starts, ends, how), (part.total, *rest)))


def _rectangles(operands: dict[str, Any]) -> tuple[RaggedTensor, dict[str, Any]] | None:
    """Rows of one length beside dense operands with something for each row: all as dense tensors, which broadcast without copies."""
    like = next(operand for operand in operands.values() if isinstance(operand, RaggedTensor))
    if not like.partition.uniform:
        return None
    rank, count, own = like.ndim, like.partition.count, False
    rectangles = {}
    for name, operand in operands.items():
        if isinstance(operand, RaggedTensor):
            if operand.partition is not like.partition or operand.place != like.place or operand.ndim != rank:
                return None
        elif isinstance(operand, Tensor):
            shape = tuple(operand.shape)
            if len(shape) == 1 and rank == 2 and shape[0] == count:
                operand, shape = run("view", operand, (count, 1)), (count, 1)
            if len(shape) > rank or (len(shape) == rank and shape[0] not in (1, count)):
                return None
            if len(shape) >= rank - like.place and shape[like.place - rank] not in (1, like.partition.uniform):
                return None
            own = own or (len(shape) == rank and shape[0] != 1)
        rectangles[name] = operand
    if not own:
        return None
    for name, operand in rectangles.items():
        if isinstance(operand, RaggedTensor):
            rectangles[name] = as_dense(operand)
            if rectangles[name] is None:
                return None
    return like, rectangles


def aligned(who: str, operands: dict[str, Any]) -> tuple[RaggedTensor, dict[str, Any]] | None:
    """(the ragged tensor whose rows the result has, operands on its packed elements); None when there is no such one."""
    ragged = [operand for operand in operands.values() if isinstance(operand, RaggedTensor)]
    like = max(ragged, key=lambda x: (x.ndim, _levels(x)))
    packed = {}
    for name, operand in operands.items():
        if isinstance(operand, RaggedTensor):
            if operand.ndim < like.ndim and _meets(operand, like):
                operand = run("unflatten", operand, 1, (1,) * (like.ndim - operand.ndim) + (operand.shape[1],))
            if operand is not like and (operand.ndim != like.ndim or operand.place != like.place):
                if operand.ndim != like.ndim:
                    raise ShapeError(
                        f"{who}: ragged tensors of shapes {tuple(like.shape)} and {tuple(operand.shape)} do not broadcast: dims are aligned from "
                        f"the right. Use unsqueeze to line them up, e.g. x.unsqueeze(-1)."
                    )
                return None
            if operand is not like:
                if isinstance(like.partition, Shapes) != isinstance(operand.partition, Shapes):
                    return None
                if isinstance(like.partition, Shapes) and like.partition.fixed != operand.partition.fixed:  # type: ignore[attr-defined]
                    return None
                like.partition.check_same(who, operand.partition)
            packed[name] = operand.packed
        elif isinstance(operand, Tensor) or hasattr(operand, "shape"):
            if len(operand.shape) and isinstance(like.partition, Shapes):
                return None
            packed[name] = repeated(who, operand, like)
        else:
            packed[name] = operand
    return like, packed


def _meets(x: RaggedTensor, like: RaggedTensor) -> bool:
    """Whether rows of fewer dims fit those of `like` from the right, with the ragged dims on one another: (B, j, D) and (B, heads, j, D)."""
    if _levels(x) > 1 or _levels(like) > 1 or x.partition.count != like.partition.count:
        return False
    pairs = zip(x.shape[:0:-1], like.shape[:0:-1], strict=False)
    kinds = [(isinstance(size, int), isinstance(other, int)) for size, other in pairs]
    return all([mine == other for mine, other in kinds]) and (x.place - x.ndim == like.place - like.ndim or not x.place)


def _levels(x: Any) -> int:
    count = 0
    while isinstance(x, RaggedTensor):
        x, count = x.packed, count + 1
    return count


def repeated(who: str, dense: Any, like: RaggedTensor) -> Any:
    """A dense operand as one of the packed elements of `like`: what a row has of its own is repeated for the elements of the row."""
    shape = tuple(dense.shape)
    rank, part, place = like.ndim, like.partition, like.place
    if not shape:
        return dense
    if isinstance(part, Shapes):
        raise ShapeError(
            f"{who}: a dense operand of shape {shape} beside rows with several ragged dims; use a number, or x.unbind()."
        )
    if len(shape) == 1 and rank == 2 and shape[0] == part.count and shape[0] != 1:
        dense, shape = run("view", dense, (shape[0], 1)), (shape[0], 1)  # one for each row
    lead = rank - len(shape)
    if lead < 0:
        raise ShapeError(
            f"{who}: a dense operand of shape {shape} has more dims than the ragged tensor of shape {tuple(like.shape)}. Use x.unsqueeze()."
        )
    if lead == 0 and shape[0] == part.count and shape[0] != 1:
        return _each_row(who, dense, like)
    if lead == 0:
        if shape[0] != 1:
            raise ShapeError(
                f"{who}: a dense operand of shape {shape} has {shape[0]} rows, the ragged tensor of shape {tuple(like.shape)} {part.count}."
            )
        dense, shape, lead = run("view", dense, shape[1:]), shape[1:], 1
        if not shape:
            return dense
    at = place - lead
    if at >= 0 and shape[at] != 1:
        _check_uniform(who, like, shape, shape[at])
        whole = run(
            "expand", run("view", dense, (1, *(1,) * (lead - 1), *shape)), (part.count, *(1,) * (lead - 1), *shape)
        )
        return _packed_of(whole, like)
    return dense


def _each_row(who: str, dense: Any, like: RaggedTensor) -> Any:
    shape, place, part = tuple(dense.shape), like.place, like.partition
    if shape[place] != 1:
        _check_uniform(who, like, shape, shape[place])
        return _packed_of(dense, like)
    front = (
        dense
        if place == 1
        else run("permute", dense, (0, place, *[dim for dim in range(1, len(shape)) if dim != place]))
    )
    rest = tuple(front.shape)[2:]
    elements = spread(run("view", _contiguous(front), (shape[0], *rest)), part)
    if place == 1:
        return elements
    return run("permute", elements, (*range(1, place), 0, *range(place, len(rest) + 1)))


def _packed_of(dense: Any, like: RaggedTensor) -> Any:
    """(B, T, *) where all rows have length T, as packed elements."""
    place = like.place
    shape = tuple(dense.shape)
    order = (0, place, *[dim for dim in range(1, len(shape)) if dim != place])
    front = _contiguous(run("permute", dense, order))
    flat = run("view", front, (like.partition.total, *tuple(front.shape)[2:]))
    return flat if place == 1 else run("permute", flat, (*range(1, place), 0, *range(place, flat.ndim)))


def _contiguous(x: Any) -> Any:
    return run("contiguous", x)


def _check_uniform(who: str, like: RaggedTensor, shape: tuple[int, ...], size: int) -> None:
    part = like.partition
    wrong = part.lengths != size
    if wrong.any():
        row = int(wrong.argmax())
        raise ShapeError(
            f"{who}: a dense operand of shape {shape} has {size} elements in the ragged dim {like.place}, but row {row} has "
            f"{part.lengths[row]} (lengths {shown(part.lengths)}). Give it size 1 there, or make it ragged with the same lengths."
        )


def spread(rows: Any, part: Any) -> Any:
    """(total, *): row i of `rows` (B, *) for each element of row i."""
    rest = tuple(rows.shape)[1:]
    if part.total == part.count and part.longest <= 1:
        return rows
    if rows.dtype.is_floating_point and rows.dtype.itemsize >= 4:
        count = 1
        for size in rest:
            count *= size
        device = rows.device
        starts, ends = part.tensor("starts", device), part.tensor("ends", device)
        flat = run("view", _contiguous(rows), (part.count, count))
        return run("view", run("segment_spread", flat, starts, ends, part.total), (part.total, *rest))
    return run("index", rows, [part.tensor("rows", rows.device)], (0,))
