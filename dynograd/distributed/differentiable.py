"""Collectives with gradients: `torch.distributed.nn.functional`. Each gives a new tensor, and backward sends gradients the other way.

A process's loss depends on what the others have sent it, so all processes must call backward, too; the gradients that come of it are those of
the sum of all processes' losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.distributed import collectives
from dynograd.distributed.groups import group_of, peer
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.reductions import ReduceOp
from dynograd.tensor.creation import zeros_like
from dynograd.tensor.custom_function import Function
from dynograd.tensor.tensor import Tensor

__all__ = ["all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"]


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: ReduceOp, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        collectives.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return all_reduce(grad, ctx.op, ctx.group), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, group: Any) -> Tensor:
        ctx.root, ctx.group = root, group
        result = tensor.clone()
        collectives.broadcast(result, group=group, group_src=root)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        summed = all_reduce(grad, ReduceOp.SUM, ctx.group)
        return summed if group_of(ctx.group).rank() == ctx.root else zeros_like(summed), None, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shapes: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [tensor.shape for tensor in tensors]
        results = [tensors[0].new_empty(shape) for shape in shapes]
        collectives.all_to_all(results, [tensor.contiguous() for tensor in tensors], group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The tensors of all processes joined, as a new tensor.

    Args:
        tensor: of one shape in all processes.
        op: `ReduceOp.SUM` or AVG.
        group: a group; None is the default one.
    Returns:
        A tensor of the same shape; its gradient is the sum (or average) of all processes' gradients.

    >>> from dynograd.distributed.nn.functional import all_reduce
    >>> def program():
    ...     x = tensor([1.0], requires_grad=True)
    ...     ((dynograd.distributed.get_rank() + 1) * all_reduce(x)).backward()
    ...     return x.grad
    >>> dynograd.distributed.simulate(program, ranks=2)
    [tensor([3.]), tensor([3.])]
    """
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(
            f"all_reduce: expected op to be ReduceOp.SUM or ReduceOp.AVG, which have gradients, got {op!r}."
        )
    return _AllReduce.apply(tensor, op, group)


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """The tensors of all processes.

    Args:
        tensor: of one shape in all processes.
        group: a group; None is the default one.
    Returns:
        A tensor for each process.

    >>> from dynograd.distributed.nn.functional import all_gather
    >>> dynograd.distributed.simulate(lambda: all_gather(tensor([1.5])), ranks=2)[0]
    (tensor([1.5000]), tensor([1.5000]))
    """
    size = group_of(group).size()
    return tuple(_AllToAll.apply(group, [tensor.shape] * size, *[tensor] * size))


def reduce_scatter(tensors: Sequence[Tensor], group: ProcessGroup | None = None) -> Tensor:
    """The sum over all processes of the tensor that each has for this one.

    Args:
        tensors: a list of one tensor for each process.
        group: a group; None is the default one.
    Returns:
        A tensor.

    >>> from dynograd.distributed.nn.functional import reduce_scatter
    >>> dynograd.distributed.simulate(lambda: reduce_scatter([tensor([1.0]), tensor([2.0])]), ranks=2)
    [tensor([2.]), tensor([4.])]
    """
    tensors = list(tensors)
    received = _AllToAll.apply(group, [tensors[group_of(group).rank()].shape] * len(tensors), *tensors)
    total = received[0]
    for part in received[1:]:
        total = total + part
    return total


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: ProcessGroup | None = None
) -> tuple[Tensor, ...]:
    """Each process hands each a tensor.

    Args:
        output_tensor_list: tensors of the shapes that come.
        input_tensor_list: what is sent, one for each process.
        group: a group; None is the default one.
    Returns:
        A tensor from each process.

    >>> from dynograd.distributed.nn.functional import all_to_all
    >>> def program():
    ...     x = tensor([float(dynograd.distributed.get_rank())])
    ...     return [y.item() for y in all_to_all([x, x], [x, 10 + x])]
    >>> dynograd.distributed.simulate(program, ranks=2)
    [[0.0, 1.0], [10.0, 11.0]]
    """
    return tuple(_AllToAll.apply(group, [tensor.shape for tensor in output_tensor_list], *input_tensor_list))


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Tensor:
    """The tensor of `src`, as a new tensor; its gradient is the sum of all processes' gradients.

    Args:
        tensor: of one shape in all processes.
        src: the process by its rank in the world.
        group: a group; None is the default one.
    Returns:
        A tensor.

    >>> from dynograd.distributed.nn.functional import broadcast
    >>> dynograd.distributed.simulate(lambda: broadcast(tensor([dynograd.distributed.get_rank()]), 1), ranks=2)
    [tensor([1]), tensor([1])]
    """
    return _Broadcast.apply(tensor, peer("broadcast", "src", group_of(group), src, None), group)
