"""Collectives with gradients: `torch.distributed.nn.functional`. Each gives a new tensor, and backward sends gradients the other way.

A process's loss depends on what the others have sent it, so all processes must call backward, too, also of the zeros that those have to whom
nothing comes; the gradients are those of the sum of all processes' losses.
"""

from __future__ import annotations

from collections.abc import Sequence

from dynograd.distributed.differentiable_collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    AllToAllSingle,
    Broadcast,
    Gather,
    Reduce,
    ReduceScatter,
    Scatter,
)
from dynograd.distributed.groups import group_of, peer
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.reductions import ReduceOp
from dynograd.tensor.tensor import Tensor

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _check_op(who: str, op: ReduceOp) -> None:
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"{who}: expected op to be ReduceOp.SUM or ReduceOp.AVG, which have gradients, got {op!r}.")


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
    _check_op("all_reduce", op)
    return AllReduce.apply(tensor, op, group)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None) -> Tensor:
    """The tensors of all processes joined in the process `dst`, as a new tensor; the others get zeros.

    Args:
        tensor: of one shape in all processes.
        dst: the process by its rank in the world.
        op: `ReduceOp.SUM` or AVG.
        group: a group; None is the default one.
    Returns:
        A tensor of the same shape.

    >>> from dynograd.distributed.nn.functional import reduce
    >>> dynograd.distributed.simulate(lambda: reduce(tensor([1.0]), 0), ranks=2)
    [tensor([2.]), tensor([0.])]
    """
    _check_op("reduce", op)
    return Reduce.apply(tensor, peer("reduce", "dst", group_of(group), dst, None), op, group)


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
    return tuple(AllGather.apply(tensor, [tensor.shape] * group_of(group).size(), group))


def gather(tensor: Tensor, dst: int = 0, group: ProcessGroup | None = None) -> tuple[Tensor, ...]:
    """The tensors of all processes in the process `dst`; the others get zeros.

    Args:
        tensor: of one shape in all processes.
        dst: the process by its rank in the world.
        group: a group; None is the default one.
    Returns:
        A tensor for each process.

    >>> from dynograd.distributed.nn.functional import gather
    >>> dynograd.distributed.simulate(lambda: gather(tensor([1.5])), ranks=2)[0]
    (tensor([1.5000]), tensor([1.5000]))
    """
    of = group_of(group)
    return tuple(Gather.apply(tensor, [tensor.shape] * of.size(), peer("gather", "dst", of, dst, None), group))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: ProcessGroup | None = None) -> Tensor:
    """This process's tensor of those that `src` has.

    Args:
        tensors: a list of one tensor for each process; in the other processes only their shapes count.
        src: the process by its rank in the world.
        group: a group; None is the default one.
    Returns:
        A tensor.

    >>> from dynograd.distributed.nn.functional import scatter
    >>> dynograd.distributed.simulate(lambda: scatter([tensor([1.0]), tensor([2.0])]), ranks=2)
    [tensor([1.]), tensor([2.])]
    """
    of = group_of(group)
    return Scatter.apply(peer("scatter", "src", of, src, None), group, *_one_each("scatter", tensors, of))


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None
) -> Tensor:
    """The sum over all processes of the tensor that each has for this one.

    Args:
        output: is written; of the shape of this process's tensors.
        input_list: a list of one tensor for each process.
        op: `ReduceOp.SUM` or AVG.
        group: a group; None is the default one.
    Returns:
        A tensor that shares its memory with `output` and has the gradients.

    >>> from dynograd.distributed.nn.functional import reduce_scatter
    >>> dynograd.distributed.simulate(lambda: reduce_scatter(dynograd.empty(1), [tensor([1.0]), tensor([2.0])]), ranks=2)
    [tensor([2.]), tensor([4.])]
    """
    _check_op("reduce_scatter", op)
    inputs = _one_each("reduce_scatter", input_list, group_of(group))
    return ReduceScatter.apply([output.detach()], op, group, *inputs)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: ProcessGroup | None = None
) -> tuple[Tensor, ...]:
    """Each process hands each a tensor.

    Args:
        output_tensor_list: are written; tensors of the shapes that come.
        input_tensor_list: what is sent, one for each process.
        group: a group; None is the default one.
    Returns:
        A tensor from each process; they share their memory with `output_tensor_list` and have the gradients.

    >>> from dynograd.distributed.nn.functional import all_to_all
    >>> def program():
    ...     x = tensor([float(dynograd.distributed.get_rank())])
    ...     return [y.item() for y in all_to_all([dynograd.empty(1), dynograd.empty(1)], [x, 10 + x])]
    >>> dynograd.distributed.simulate(program, ranks=2)
    [[0.0, 1.0], [10.0, 11.0]]
    """
    inputs = _one_each("all_to_all", input_tensor_list, group_of(group))
    return tuple(AllToAll.apply([target.detach() for target in output_tensor_list], group, *inputs))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
) -> Tensor:
    """Each process hands each a part of its tensor's rows.

    Args:
        output: is written; of the shape of what comes.
        input: what is sent.
        output_split_sizes, input_split_sizes: how many rows come from, and go to each process; equally many when left out.
        group: a group; None is the default one.
    Returns:
        A tensor that shares its memory with `output` and has the gradients.

    >>> from dynograd.distributed.nn.functional import all_to_all_single
    >>> def program():
    ...     return all_to_all_single(dynograd.empty(2), tensor([1.0, 2.0]) + 10 * dynograd.distributed.get_rank())
    >>> dynograd.distributed.simulate(program, ranks=2)
    [tensor([ 1., 11.]), tensor([ 2., 12.])]
    """
    return AllToAllSingle.apply([output.detach()], input, output_split_sizes, input_split_sizes, group)


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
    return Broadcast.apply(tensor, peer("broadcast", "src", group_of(group), src, None), group)


def _one_each(who: str, tensors: Sequence[Tensor], group: ProcessGroup) -> list[Tensor]:
    if len(tensors) != group.size():
        raise ValueError(f"{who}: expected a tensor for each of {group.size()} processes, got {len(tensors)}.")
    return [*tensors]
