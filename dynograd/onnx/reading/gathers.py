"""Elements taken and put by index."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, dynograd, ints, number, numbers
from dynograd.tensor.tensor import Tensor


def _from_zero(indices: Tensor, size: int) -> Tensor:
    """Indices that count from the end count from the start."""
    indices = indices.to(dynograd.int64)
    return dynograd.where(indices < 0, indices + size, indices)


@operator("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    if not isinstance(x, Tensor):
        return numpy.take(x, indices.numpy(), axis)
    axis %= x.ndim
    y = dynograd.index_select(x, axis, _from_zero(indices, x.shape[axis]).reshape(-1))
    return y.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return dynograd.gather(x, axis, _from_zero(indices, x.shape[axis]))


def _places(x: Any, indices: Any, batch: int = 0) -> tuple:
    grids = [
        dynograd.arange(size).reshape([-1 if dim == axis else 1 for dim in range(indices.ndim - 1)])
        for axis, size in enumerate(x.shape[:batch])
    ]
    return (*grids, *(_from_zero(indices[..., i], x.shape[batch + i]) for i in range(indices.shape[-1])))


@operator("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    return x[_places(x, indices, batch_dims)]


@operator("ScatterElements")
def scatter_elements(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    indices = _from_zero(indices, x.shape[axis])
    if reduction == "none":
        return dynograd.scatter(x, axis, indices, updates)
    word = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[reduction]
    return dynograd.scatter_reduce(x, axis, indices, updates, word)


@operator("Scatter")
def scatter(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0) -> Tensor:
    return scatter_elements(x, indices, updates, axis=axis)


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    depth = indices.shape[-1]
    rows = [int(size) for size in x.shape[:depth]]
    flat = dynograd.zeros(indices.shape[:-1], dtype=dynograd.int64)
    for axis, size in enumerate(rows):
        flat = flat * size + _from_zero(indices[..., axis], size)
    width = int(numpy.prod(x.shape[depth:]))
    table = x.reshape(int(numpy.prod(rows)), width)
    flat = flat.reshape(-1, 1).expand(-1, width)
    return scatter_elements(table, flat, updates.reshape(-1, width), axis=0, reduction=reduction).reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(
    past: Tensor, update: Tensor, starts: Numbers | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    axis %= past.ndim
    first = [0] * past.shape[0] if starts is None else ints(starts)
    rows = []
    for row, new, start in zip(past, update, first):
        places = (start + dynograd.arange(new.shape[axis - 1])) % row.shape[axis - 1]
        rows.append(row.index_copy(axis - 1, places, new))
    return dynograd.stack(rows)


@operator("OneHot")
def one_hot(indices: Tensor, depth: Numbers, values: Tensor, *, axis: int = -1) -> Tensor:
    size = int(number(depth))
    hot = (indices.to(dynograd.int64) % size)[..., None] == dynograd.arange(size)
    inside = (indices >= -size) & (indices < size)
    return dynograd.where(hot & inside[..., None], values[1], values[0]).movedim(-1, axis)


@operator("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    if axis is None:
        x, axis = x.reshape(-1), 0
    chosen = [place for place, value in enumerate(numbers(condition)) if value]
    return dynograd.index_select(x, axis, dynograd.tensor(chosen, dtype=dynograd.int64))


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    return dynograd.nonzero(x).T


@operator("Unique", outputs=4)
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> tuple[Tensor, ...]:
    y, first, inverse, counts = numpy.unique(
        x.detach().numpy(), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = numpy.argsort(first)
        y, first, counts = numpy.take(y, order, axis or 0), first[order], counts[order]
        inverse = numpy.argsort(order)[inverse]
    return tuple(dynograd.from_numpy(numpy.ascontiguousarray(part)) for part in (y, first, inverse, counts))


@operator("NonMaxSuppression")
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most: Numbers | None = None,
    overlap: Numbers | None = None,
    least: Numbers | None = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    limit = 0 if most is None else int(number(most))
    threshold = 0.0 if overlap is None else number(overlap)
    corners = boxes.detach().double().numpy()
    if center_point_box:
        middle, size = corners[..., :2], corners[..., 2:]
        corners = numpy.concatenate([middle - size / 2, middle + size / 2], -1)
    low, high = numpy.minimum(corners[..., :2], corners[..., 2:]), numpy.maximum(corners[..., :2], corners[..., 2:])
    chosen = []
    for batch, classes in enumerate(scores.detach().numpy()):
        for label, values in enumerate(classes):
            kept: list[int] = []
            for box in numpy.argsort(-values, kind="stable"):
                if len(kept) == limit or (least is not None and values[box] <= number(least)):
                    break
                sides = numpy.minimum(high[batch, kept], high[batch, box]) - numpy.maximum(
                    low[batch, kept], low[batch, box]
                )
                common = numpy.prod(numpy.maximum(sides, 0), -1)
                areas = numpy.prod(high[batch] - low[batch], -1)
                if not (common > threshold * (areas[kept] + areas[box] - common)).any():
                    kept.append(int(box))
            chosen += [[batch, label, box] for box in kept]
    return dynograd.tensor(chosen, dtype=dynograd.int64).reshape(-1, 3)
