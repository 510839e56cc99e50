"""What the processes of a group do together, for a group of one: numbers stay, and are copied where a result has a place of its own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from dynograd.autograd import no_grad
from dynograd.base.hints import DeviceLike
from dynograd.distributed.groups import ProcessGroup, ReduceOp, check_rank, group_of
from dynograd.errors import DtypeError, ShapeError
from dynograd.tensor.tensor import Tensor

__all__ = [
    "Work",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
]


class Work:
    """The handle of a collective called with `async_op=True`; it is done already.

    >>> dynograd.distributed.init_process_group()
    >>> work = dynograd.distributed.barrier(async_op=True)
    >>> dynograd.distributed.destroy_process_group()
    >>> work.is_completed()
    True
    """

    def is_completed(self) -> bool:
        """Whether it is done: always.

        Returns:
            True.
        """
        return True

    def is_success(self) -> bool:
        """Whether it went well: always.

        Returns:
            True.
        """
        return True

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """Waits until it is done: it is.

        Args:
            timeout: not needed.
        Returns:
            True.
        """
        return True


def _done(async_op: bool) -> Work | None:
    return Work() if async_op else None


def _tensor(who: str, name: str, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{who}: expected {name} to be a Tensor, got {type(value).__name__}. Make one with tensor(...)."
        )
    return value


def _one_of(who: str, name: str, values: Any) -> Tensor:
    """The only tensor of a list that has one for each process."""
    if not isinstance(values, (list, tuple)) or len(values) != 1:
        shown = f"{len(values)} of them" if isinstance(values, (list, tuple)) else type(values).__name__
        raise ValueError(f"{who}: expected {name} to be a list of 1 Tensor (one for each process), got {shown}.")
    return _tensor(who, f"{name}[0]", values[0])


def _copy(who: str, target: Tensor, source: Tensor) -> None:
    if target.shape.numel() != source.shape.numel():
        raise ShapeError(
            f"{who}: output of shape {tuple(target.shape)} cannot hold input of shape {tuple(source.shape)} of 1 process. Make it "
            f"dynograd.empty_like(input)."
        )
    if target.dtype != source.dtype:
        raise DtypeError(f"{who}: output has {target.dtype}, input {source.dtype}; they must be of one dtype.")
    with no_grad():
        target.copy_(source.reshape(target.shape))


def _reduction(who: str, op: Any) -> None:
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{who}: expected op to be a ReduceOp such as ReduceOp.SUM, got {op!r}.")


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Joins `tensor` over the group, in place: of one process, its own numbers.

    Args:
        tensor: the numbers, and what becomes of them.
        op: how; `ReduceOp.SUM` and its like.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> x = tensor([1.0, 2.0])
    >>> dynograd.distributed.all_reduce(x)
    >>> dynograd.distributed.destroy_process_group()
    >>> x
    tensor([1., 2.])
    """
    group_of(group)
    _reduction("all_reduce", op)
    _tensor("all_reduce", "tensor", tensor)
    return _done(async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Joins `tensor` over the group into the process `dst`.

    Args:
        tensor: the numbers, and what becomes of them.
        dst, group_dst: 0, the process by its rank in the world or in the group.
        op: how; `ReduceOp.SUM` and its like.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> x = tensor([1.0, 2.0])
    >>> dynograd.distributed.reduce(x, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> x
    tensor([1., 2.])
    """
    group_of(group)
    _reduction("reduce", op)
    _tensor("reduce", "tensor", tensor)
    check_rank("reduce", "dst", dst if group_dst is None else group_dst)
    return _done(async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives every process the tensor of `src`.

    Args:
        tensor: what is sent, or received.
        src, group_src: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> x = tensor([1.0, 2.0])
    >>> dynograd.distributed.broadcast(x, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> x
    tensor([1., 2.])
    """
    group_of(group)
    _tensor("broadcast", "tensor", tensor)
    check_rank("broadcast", "src", src if group_src is None else group_src)
    return _done(async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copies the tensors of all processes into `tensor_list`.

    Args:
        tensor_list: a list of one tensor, which is written.
        tensor: of the same shape.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = [dynograd.zeros(2)]
    >>> dynograd.distributed.all_gather(result, tensor([1.0, 2.0]))
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    [tensor([1., 2.])]
    """
    group_of(group)
    _copy("all_gather", _one_of("all_gather", "tensor_list", tensor_list), _tensor("all_gather", "tensor", tensor))
    return _done(async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copies the tensors of all processes into one, behind each other.

    Args:
        output_tensor: what is written.
        input_tensor: of the same shape.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.all_gather_into_tensor(result, tensor([1.0, 2.0]))
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    group_of(group)
    who = "all_gather_into_tensor"
    _copy(who, _tensor(who, "output_tensor", output_tensor), _tensor(who, "input_tensor", input_tensor))
    return _done(async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copies the tensors of all processes into `gather_list` of the process `dst`.

    Args:
        tensor: what is sent.
        gather_list: a list of one tensor, which is written.
        dst, group_dst: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = [dynograd.zeros(2)]
    >>> dynograd.distributed.gather(tensor([1.0, 2.0]), result)
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    [tensor([1., 2.])]
    """
    group_of(group)
    check_rank("gather", "dst", dst if group_dst is None else group_dst)
    _copy("gather", _one_of("gather", "gather_list", gather_list), _tensor("gather", "tensor", tensor))
    return _done(async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Hands each process its tensor of the `scatter_list` of `src`.

    Args:
        tensor: what is written.
        scatter_list: a list of one tensor.
        src, group_src: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.scatter(result, [tensor([1.0, 2.0])])
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    group_of(group)
    check_rank("scatter", "src", src if group_src is None else group_src)
    _copy("scatter", _tensor("scatter", "tensor", tensor), _one_of("scatter", "scatter_list", scatter_list))
    return _done(async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Joins the lists of all processes and hands each its tensor.

    Args:
        output: what is written.
        input_list: a list of one tensor.
        op: how; `ReduceOp.SUM` and its like.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.reduce_scatter(result, [tensor([1.0, 2.0])])
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    group_of(group)
    _reduction("reduce_scatter", op)
    _copy(
        "reduce_scatter",
        _tensor("reduce_scatter", "output", output),
        _one_of("reduce_scatter", "input_list", input_list),
    )
    return _done(async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Joins the tensors of all processes and hands each its part.

    Args:
        output: what is written.
        input: of the same shape.
        op: how; `ReduceOp.SUM` and its like.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.reduce_scatter_tensor(result, tensor([1.0, 2.0]))
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    group_of(group)
    _reduction("reduce_scatter_tensor", op)
    who = "reduce_scatter_tensor"
    _copy(who, _tensor(who, "output", output), _tensor(who, "input", input))
    return _done(async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Each process hands each a tensor.

    Args:
        output_tensor_list: a list of one tensor, which is written.
        input_tensor_list: a list of one tensor.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = [dynograd.zeros(2)]
    >>> dynograd.distributed.all_to_all(result, [tensor([1.0, 2.0])])
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    [tensor([1., 2.])]
    """
    group_of(group)
    who = "all_to_all"
    source = _one_of(who, "input_tensor_list", input_tensor_list)
    _copy(who, _one_of(who, "output_tensor_list", output_tensor_list), source)
    return _done(async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Each process hands each a part of its tensor.

    Args:
        output: what is written.
        input: of the same shape.
        output_split_sizes, input_split_sizes: a list of one size, or None.
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.all_to_all_single(result, tensor([1.0, 2.0]))
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    group_of(group)
    who = "all_to_all_single"
    for name, sizes, tensor in (("output", output_split_sizes, output), ("input", input_split_sizes, input)):
        if sizes and list(sizes) != [_tensor(who, name, tensor).shape[0]]:
            raise ValueError(
                f"{who}: {name}_split_sizes={list(sizes)} do not sum to the {tensor.shape[0]} rows of {name} of 1 process."
            )
    _copy(who, _tensor(who, "output", output), _tensor(who, "input", input))
    return _done(async_op)


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: object = None) -> Work | None:
    """Waits for all processes of the group: for none.

    Args:
        group: a group; None is the default one.
        async_op: give a handle, whose work is done already.
        device_ids: not needed.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> dynograd.distributed.barrier()
    >>> dynograd.distributed.destroy_process_group()
    """
    group_of(group)
    return _done(async_op)


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """Waits for all processes of the group: for none.

    Args:
        group: a group; None is the default one.
        timeout, wait_all_ranks: not needed.

    >>> dynograd.distributed.init_process_group()
    >>> dynograd.distributed.monitored_barrier()
    >>> dynograd.distributed.destroy_process_group()
    """
    group_of(group)


def all_gather_object(object_list: list[Any], obj: object, group: ProcessGroup | None = None) -> None:
    """Puts the objects of all processes into `object_list`: this one's, as it is.

    Args:
        object_list: a list of one place, which is written.
        obj: any object.
        group: a group; None is the default one.

    >>> dynograd.distributed.init_process_group()
    >>> found = [None]
    >>> dynograd.distributed.all_gather_object(found, {"loss": 1.5})
    >>> dynograd.distributed.destroy_process_group()
    >>> found
    [{'loss': 1.5}]
    """
    group_of(group)
    if len(object_list) != 1:
        raise ValueError(
            f"all_gather_object: expected object_list to have 1 place (one for each process), got {len(object_list)}."
        )
    object_list[0] = obj


def gather_object(
    obj: object,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Puts the objects of all processes into the list of the process `dst`.

    Args:
        obj: any object.
        object_gather_list: a list of one place, which is written.
        dst, group_dst: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.

    >>> dynograd.distributed.init_process_group()
    >>> result = [None]
    >>> dynograd.distributed.gather_object("loss", result)
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    ['loss']
    """
    check_rank("gather_object", "dst", dst if group_dst is None else group_dst)
    if object_gather_list is None:
        raise ValueError("gather_object: argument object_gather_list must be given on the process dst, got None.")
    all_gather_object(object_gather_list, obj, group)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: DeviceLike = None,
    group_src: int | None = None,
) -> None:
    """Gives every process the objects of `src`.

    Args:
        object_list: the objects.
        src, group_src: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.
        device: not needed.

    >>> dynograd.distributed.init_process_group()
    >>> objects = [1, "a"]
    >>> dynograd.distributed.broadcast_object_list(objects, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> objects
    [1, 'a']
    """
    group_of(group)
    check_rank("broadcast_object_list", "src", src if group_src is None else group_src)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Hands each process its object of the list of `src`.

    Args:
        scatter_object_output_list: a list of one place, which is written.
        scatter_object_input_list: a list of one object.
        src, group_src: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.

    >>> dynograd.distributed.init_process_group()
    >>> result = [None]
    >>> dynograd.distributed.scatter_object_list(result, ["part"])
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    ['part']
    """
    group_of(group)
    check_rank("scatter_object_list", "src", src if group_src is None else group_src)
    if not scatter_object_input_list or len(scatter_object_input_list) != 1:
        raise ValueError(
            f"scatter_object_list: expected a list of 1 object (one for each process), got {scatter_object_input_list!r}."
        )
    scatter_object_output_list[0] = scatter_object_input_list[0]
