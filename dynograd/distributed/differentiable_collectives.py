"""The rules of collectives with gradients, in pairs of which each is the other's gradient: broadcast and reduce, scatter and gather,
all_gather and reduce_scatter; all_reduce and all_to_all are their own.
"""

from __future__ import annotations

from typing import Any

from dynograd.distributed import collectives
from dynograd.distributed.groups import group_of
from dynograd.distributed.reductions import ReduceOp
from dynograd.tensor.custom_function import Function
from dynograd.tensor.tensor import Tensor

__all__ = [
    "AllGather",
    "AllReduce",
    "AllToAll",
    "AllToAllSingle",
    "Broadcast",
    "Gather",
    "Reduce",
    "ReduceScatter",
    "Scatter",
]


class AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: ReduceOp, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        collectives.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return AllReduce.apply(grad, ctx.op, ctx.group), None, None


class Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, group: Any) -> Tensor:
        ctx.root, ctx.group = root, group
        result = tensor.clone()
        collectives.broadcast(result, group=group, group_src=root)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return Reduce.apply(grad, ctx.root, ReduceOp.SUM, ctx.group), None, None


class Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, op: ReduceOp, group: Any) -> Tensor:
        ctx.root, ctx.op, ctx.group = root, op, group
        result = tensor.clone()
        collectives.reduce(result, op=op, group=group, group_dst=root)
        return result if group_of(group).rank() == root else result.zero_()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _share(Broadcast.apply(grad, ctx.root, ctx.group), ctx), None, None, None


class Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, shapes: Any, root: int, group: Any) -> tuple[Tensor, ...]:
        ctx.root, ctx.group = root, group
        results = [tensor.new_zeros(shape) for shape in shapes]
        collectives.gather(tensor, results if group_of(group).rank() == root else None, group=group, group_dst=root)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return Scatter.apply(ctx.root, ctx.group, *grads), None, None, None


class Scatter(Function):
    @staticmethod
    def forward(ctx: Any, root: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.root, ctx.group, ctx.shapes = root, group, [tensor.shape for tensor in tensors]
        rank = group_of(group).rank()
        result = tensors[rank].new_empty(tensors[rank].shape)
        collectives.scatter(result, [*tensors] if rank == root else None, group=group, group_src=root)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *Gather.apply(grad, ctx.shapes, ctx.root, ctx.group)


class AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, shapes: Any, group: Any) -> tuple[Tensor, ...]:
        ctx.group = group
        results = [tensor.new_empty(shape) for shape in shapes]
        collectives.all_gather(results, tensor, group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        own = grads[group_of(ctx.group).rank()]
        return ReduceScatter.apply([own.new_empty(own.shape)], ReduceOp.SUM, ctx.group, *grads), None, None


class ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, outputs: list[Tensor], op: ReduceOp, group: Any, *tensors: Tensor) -> Tensor:
        ctx.op, ctx.group, ctx.shapes = op, group, [tensor.shape for tensor in tensors]
        collectives.reduce_scatter(outputs[0], [*tensors], op, group)
        return outputs[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, None, *AllGather.apply(_share(grad, ctx), ctx.shapes, ctx.group)


class AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, outputs: list[Tensor], group: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [tensor.shape for tensor in tensors]
        collectives.all_to_all(outputs, [*tensors], group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        targets = [grads[0].new_empty(shape) for shape in ctx.shapes]
        return None, None, *AllToAll.apply(targets, ctx.group, *grads)


class AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, outputs: list[Tensor], input: Tensor, receives: Any, sends: Any, group: Any) -> Tensor:
        ctx.shape, ctx.receives, ctx.sends, ctx.group = input.shape, receives, sends, group
        collectives.all_to_all_single(outputs[0], input, receives, sends, group)
        return outputs[0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        targets = [grad.new_empty(ctx.shape)]
        return None, AllToAllSingle.apply(targets, grad, ctx.sends, ctx.receives, ctx.group), None, None, None


def _share(grad: Tensor, ctx: Any) -> Tensor:
    """What one process has of the gradient of a sum, or of an average."""
    return grad / group_of(ctx.group).size() if ctx.op == ReduceOp.AVG else grad
