"""Tensors from one placement to another over a group, with gradients.

The gradient of what lies whole in each process is whole in each process; that of a part is a part. `entering` marks where a whole tensor goes
into a computation with parts of parameters: each process then has a term of its gradient, and the terms are added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.distributed import collectives
from dynograd.distributed.communicators.protocol import parts_of
from dynograd.distributed.placements import Partial, Placement, Replicate, Shard
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.reductions import ReduceOp
from dynograd.errors import ShapeError
from dynograd.ops.layout.joins import cat
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.creation import empty
from dynograd.tensor.custom_function import Function
from dynograd.tensor.tensor import Tensor

__all__ = ["entering", "redistribute"]


def _sum(x: Tensor, group: ProcessGroup) -> Tensor:
    result = x.clone()
    collectives.all_reduce(result, ReduceOp.SUM, group)
    return result


def _sizes(total: int, group: ProcessGroup) -> list[int]:
    return [part.stop - part.start for part in parts_of(total, group.size())]


def _cut(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    return x.split(_sizes(x.shape[dim], group), dim)[group.rank()].contiguous()


def _join(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    """The parts of all processes along a dim, whatever their sizes are."""
    sizes = np.zeros(group.size(), np.int64)
    own = np.array([x.shape[dim]], np.int64)
    group.run(
        "sizes of parts",
        lambda communicator: communicator.all_gather(own, [sizes[k : k + 1] for k in range(len(sizes))]),
    )
    shapes = [(*x.shape[:dim], int(size), *x.shape[dim + 1 :]) for size in sizes]
    parts = [empty(shape, dtype=x.dtype, device=x.device) for shape in shapes]
    collectives.all_gather(parts, x.contiguous(), group)
    return cat(parts, dim)


def _sum_and_cut(x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    parts = [part.contiguous() for part in x.split(_sizes(x.shape[dim], group), dim)]
    result = parts[group.rank()].clone()
    collectives.reduce_scatter(result, parts, ReduceOp.SUM, group)
    return result


class _Summed(Function):
    """Terms into their sum; the gradient of the sum is that of each term."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return _sum(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Entering.apply(grad, ctx.group), None


class _Entering(Function):
    """The same numbers; their gradient is the sum of the terms that the processes have."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Summed.apply(grad, ctx.group), None


class _Cut(Function):
    """The whole into this process's part."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _cut(x, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Joined.apply(grad, ctx.dim, ctx.group, False), None, None


class _Joined(Function):
    """Parts into the whole. `enters`: the processes then have terms of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: ProcessGroup, enters: bool) -> Tensor:
        ctx.dim, ctx.group, ctx.enters = dim, group, enters
        return _join(x, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        back = _SummedAndCut if ctx.enters else _Cut
        return back.apply(grad, ctx.dim, ctx.group), None, None, None


class _SummedAndCut(Function):
    """Terms into this process's part of their sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, group: ProcessGroup) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _sum_and_cut(x, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Joined.apply(grad, ctx.dim, ctx.group, True), None, None


def entering(x: Tensor, group: ProcessGroup) -> Tensor:
    """A whole tensor that goes into a computation with parts of parameters."""
    return _over_elements(lambda y: _Entering.apply(y, group), x)


def redistribute(
    x: Tensor, source: Placement, target: Placement, group: ProcessGroup, *, enters: bool = False
) -> Tensor:
    """`x` as `target` says, where it lies as `source` says.

    Args:
        x: this process's tensor.
        source, target: `Shard(dim)`, `Replicate()`; `source` may be `Partial()`, a term of a sum.
        group: whose processes have the tensor.
        enters: the result, a whole one, goes into a computation with parts of parameters.
    """
    if isinstance(source, Partial) and source.reduce_op != "sum":
        raise ValueError(f"redistribute: terms are added, got {source!r}. Use Partial('sum').")
    if isinstance(target, Partial) or not isinstance(target, (Shard, Replicate)):
        raise ValueError(f"redistribute: expected the target to be Shard(dim) or Replicate(), got {target!r}.")
    start, end = (_dim(place, x) for place in (source, target))
    if isinstance(source, Partial):
        if end is None:
            return _over_elements(lambda y: _Summed.apply(y, group), x)
        return _SummedAndCut.apply(_whole_rows(x, end), end, group)
    if start is None and end is None:
        return entering(x, group) if enters else x
    if start is None:
        return _along(x, end, lambda y, dim: _Cut.apply(y, dim, group))
    if end is None:
        return _along(x, start, lambda y, dim: _Joined.apply(y, dim, group, enters))
    if start == end:
        return x
    return _Cut.apply(_Joined.apply(_whole_rows(x, start), start, group, False), end, group)


def _dim(placement: Placement, x: Tensor) -> int | None:
    if not isinstance(placement, Shard):
        return None
    if not -x.ndim <= placement.dim < x.ndim:
        raise ShapeError(f"redistribute: a tensor of {x.ndim} dims has none to be cut along by {placement!r}.")
    return placement.dim % x.ndim


def _along(x: Any, dim: int | None, move: Any) -> Tensor:
    if isinstance(x, RaggedTensor) and dim == x.ndim - 1 and x.place < x.ndim - 1:
        return _over_elements(lambda y: move(y, y.ndim - 1), x)
    return move(_whole_rows(x, dim), dim)


def _whole_rows(x: Tensor, dim: int | None) -> Tensor:
    if isinstance(x, RaggedTensor):
        raise ShapeError(
            f"redistribute: rows of different lengths cannot be cut along dim {dim}. Cut the last dim, Shard(-1), or use x.values()."
        )
    return x


def _over_elements(move: Any, x: Any) -> Tensor:
    return x.with_packed(_over_elements(move, x.packed)) if isinstance(x, RaggedTensor) else move(x)
