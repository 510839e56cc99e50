"""What the processes of a group do together. All of them call the same collectives, with the same shapes, in the same order.

Numbers are joined in a fixed order (`reductions`), so that the same bits come of it in each run and in each process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from dynograd.distributed import ragged_rows
from dynograd.distributed.buffers import Buffer, as_tensor, check_pair, described, tensors_of
from dynograd.distributed.communicators.protocol import Communicator
from dynograd.distributed.groups import GroupMember, group_of, peer
from dynograd.distributed.process_groups import ProcessGroup, Work, seconds_of
from dynograd.distributed.reductions import ReduceOp, check_reduction
from dynograd.errors import ShapeError
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "is_outside",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]


_buffer = functools.partial(Buffer, may_stay=True)


def is_outside(group: Any) -> bool:
    """Whether this process is none of the group: it then does nothing."""
    return group is GroupMember.NON_GROUP_MEMBER or (isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER)


def _run(
    group: ProcessGroup | None,
    call: str,
    task: Callable[[Communicator], Any],
    async_op: bool,
    results: Sequence[Tensor],
) -> Work | None:
    work = group_of(group).run(call, task, async_op=async_op, results=results)
    return work if async_op else None


def _described(tensor: Tensor) -> str:
    return ragged_rows.described(tensor) if isinstance(tensor, RaggedTensor) else described(tensor)


def _sizes(tensors: Sequence[Tensor]) -> str:
    first = described(tensors[0])
    is_even = all([tensor.shape == tensors[0].shape for tensor in tensors])
    return first if is_even else described(*tensors)


def _check_own_part(who: str, name: str, part: np.ndarray, own: np.ndarray) -> None:
    if part.size != own.size:
        raise ShapeError(
            f"{who}: {name} has {own.size} elements, and the split sizes say {part.size} for this process."
        )


def _equal_parts(array: np.ndarray, size: int) -> list[np.ndarray]:
    return list(array.reshape(size, -1))


def _split(
    who: str, name: str, tensor: Tensor, sizes: Sequence[int] | None, size: int, array: np.ndarray
) -> list[np.ndarray]:
    """Rows of `tensor` for each process, as flat arrays."""
    if tensor.ndim == 0:
        raise ShapeError(f"{who}: {name} is a number, and has no rows to split among {size} processes.")
    rows = tensor.shape[0]
    if not sizes:
        if rows % size:
            raise ShapeError(
                f"{who}: the {rows} rows of {name} do not divide among {size} processes. Give {name}_split_sizes."
            )
        sizes = [rows // size] * size
    if len(sizes) != size or sum(sizes) != rows or min(sizes) < 0:
        processes = "process" if size == 1 else "processes"
        raise ValueError(
            f"{who}: {name}_split_sizes={list(sizes)} do not sum to the {rows} rows of {name} of {size} {processes}."
        )
    width = array.size // rows if rows else 0
    ends = np.cumsum([0, *sizes]) * width
    return [array[end - rows_of * width : end] for end, rows_of in zip(ends[1:], sizes)]


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Joins `tensor` over the group, in place: of one process, its own numbers.

    Args:
        tensor: the numbers, and what becomes of them; ragged ones have the same lengths in all processes.
        op: how; `ReduceOp.SUM` and its like.
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> x = tensor([1.0, 2.0])
    >>> dynograd.distributed.all_reduce(x)
    >>> dynograd.distributed.destroy_process_group()
    >>> x
    tensor([1., 2.])
    """
    if is_outside(group):
        return None
    as_tensor("all_reduce", "tensor", tensor)
    check_reduction("all_reduce", op, tensor.array.dtype)
    buffer = _buffer(ragged_rows.elements_of(tensor), True)

    def task(communicator: Communicator) -> None:
        communicator.all_reduce([buffer.array], op)
        buffer.finish()

    return _run(group, f"all_reduce of {_described(tensor)}, {op.name}", task, async_op, [tensor])


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
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> x = tensor([1.0, 2.0])
    >>> dynograd.distributed.reduce(x, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> x
    tensor([1., 2.])
    """
    if is_outside(group):
        return None
    as_tensor("reduce", "tensor", tensor)
    check_reduction("reduce", op, tensor.array.dtype)
    root = peer("reduce", "dst", group_of(group), dst, group_dst, None)
    buffer = _buffer(ragged_rows.elements_of(tensor), True)

    def task(communicator: Communicator) -> None:
        communicator.reduce(buffer.array, op, root)
        buffer.finish()

    return _run(group, f"reduce of {_described(tensor)}, {op.name}, to {root}", task, async_op, [tensor])


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives every process the tensor of `src`.

    Args:
        tensor: what is sent, or received; a ragged one takes the rows that come.
        src, group_src: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> x = tensor([1.0, 2.0])
    >>> dynograd.distributed.broadcast(x, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> x
    tensor([1., 2.])
    """
    if is_outside(group):
        return None
    as_tensor("broadcast", "tensor", tensor)
    root = peer("broadcast", "src", group_of(group), src, group_src, None)
    if isinstance(tensor, RaggedTensor):
        return _run(
            group,
            f"broadcast of a ragged tensor from {root}",
            lambda communicator: ragged_rows.broadcast(communicator, tensor, root),
            async_op,
            [tensor],
        )
    buffer = _buffer(tensor, group_of(group).rank() != root)

    def task(communicator: Communicator) -> None:
        communicator.broadcast(buffer.array, root)
        if communicator.rank != root:
            buffer.finish()

    return _run(group, f"broadcast of {described(tensor)} from {root}", task, async_op, [tensor])


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Copies the tensors of all processes into `tensor_list`.

    Args:
        tensor_list: a list of one tensor for each process, which is written.
        tensor: what is sent; shapes may differ between processes. Ragged tensors are put into the places of `tensor_list`, whatever was there.
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = [dynograd.zeros(2)]
    >>> dynograd.distributed.all_gather(result, tensor([1.0, 2.0]))
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    [tensor([1., 2.])]
    """
    if is_outside(group):
        return None
    of = group_of(group)
    as_tensor("all_gather", "tensor", tensor)
    if isinstance(tensor, RaggedTensor):
        places = ragged_rows.places_for("all_gather", "tensor_list", tensor_list, of.size())

        def gather_rows(communicator: Communicator) -> None:
            places[:] = ragged_rows.gather(communicator, tensor, None) or []

        return _run(group, "all_gather of ragged tensors", gather_rows, async_op, places)
    targets = tensors_of("all_gather", "tensor_list", tensor_list, of.size(), tensor.dtype)
    check_pair("all_gather", targets[of.rank()], tensor)
    source, buffers = _buffer(tensor, False), [_buffer(target, True) for target in targets]

    def task(communicator: Communicator) -> None:
        communicator.all_gather(source.array, [buffer.array for buffer in buffers])
        for buffer in buffers:
            buffer.finish()

    return _run(group, f"all_gather of {_sizes(targets)}", task, async_op, targets)


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    *,
    output_split_sizes: Sequence[int] | None = None,
) -> Work | None:
    """Copies the tensors of all processes into one, behind each other.

    Args:
        output_tensor: what is written.
        input_tensor: of the same shape in all processes.
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
        output_split_sizes: how many rows come from each process, where they differ.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.all_gather_into_tensor(result, tensor([1.0, 2.0]))
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    if is_outside(group):
        return None
    who, size = "all_gather_into_tensor", group_of(group).size()
    as_tensor(who, "output_tensor", output_tensor)
    as_tensor(who, "input_tensor", input_tensor)
    if output_split_sizes is None:
        check_pair(who, output_tensor, input_tensor, size * input_tensor.shape.numel())
    elif output_tensor.dtype != input_tensor.dtype:
        check_pair(who, output_tensor, input_tensor, output_tensor.shape.numel())
    source, buffer = _buffer(input_tensor, False), _buffer(output_tensor, True)
    if output_split_sizes is None:
        parts, text = _equal_parts(buffer.array, size), described(input_tensor)
    else:
        parts, text = (
            _split(who, "output", output_tensor, output_split_sizes, size, buffer.array),
            described(output_tensor),
        )
        _check_own_part(who, "input_tensor", parts[group_of(group).rank()], source.array)

    def task(communicator: Communicator) -> None:
        communicator.all_gather(source.array, parts)
        buffer.finish()

    return _run(group, f"{who} of {text}", task, async_op, [output_tensor])


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
        gather_list: a list of one tensor for each process, which is written; ragged ones are put into its places.
        dst, group_dst: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = [dynograd.zeros(2)]
    >>> dynograd.distributed.gather(tensor([1.0, 2.0]), result)
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    [tensor([1., 2.])]
    """
    if is_outside(group):
        return None
    of = group_of(group)
    as_tensor("gather", "tensor", tensor)
    root = peer("gather", "dst", of, dst, group_dst)
    if isinstance(tensor, RaggedTensor):
        places = ragged_rows.places_for("gather", "gather_list", gather_list, of.size()) if of.rank() == root else []

        def gather_rows(communicator: Communicator) -> None:
            places[:] = ragged_rows.gather(communicator, tensor, root) or []

        return _run(group, f"gather of ragged tensors to {root}", gather_rows, async_op, places)
    targets: list[Tensor] = []
    if of.rank() == root:
        targets = tensors_of("gather", "gather_list", gather_list, of.size(), tensor.dtype)
        check_pair("gather", targets[root], tensor)
    elif gather_list:
        raise ValueError(
            f"gather: gather_list is for the process {root}, which receives; leave it out on rank {of.rank()}."
        )
    source, buffers = _buffer(tensor, False), [_buffer(target, True) for target in targets]

    def task(communicator: Communicator) -> None:
        communicator.gather(source.array, [buffer.array for buffer in buffers] if buffers else None, root)
        for buffer in buffers:
            buffer.finish()

    return _run(group, f"gather of {tensor.dtype} to {root}", task, async_op, targets)


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
        tensor: what is written; a ragged one takes the rows that come.
        scatter_list: a list of one tensor for each process.
        src, group_src: 0, the process by its rank in the world or in the group.
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.scatter(result, [tensor([1.0, 2.0])])
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    if is_outside(group):
        return None
    of = group_of(group)
    as_tensor("scatter", "tensor", tensor)
    root = peer("scatter", "src", of, src, group_src)
    if isinstance(tensor, RaggedTensor):
        rows = ragged_rows.all_ragged("scatter", "scatter_list", scatter_list, of.size()) if of.rank() == root else []
        return _run(
            group,
            f"scatter of ragged tensors from {root}",
            lambda communicator: ragged_rows.scatter(communicator, tensor, rows, root),
            async_op,
            [tensor],
        )
    sources: list[Tensor] = []
    if of.rank() == root:
        sources = tensors_of("scatter", "scatter_list", scatter_list, of.size(), tensor.dtype)
        check_pair("scatter", tensor, sources[root])
    elif scatter_list:
        raise ValueError(
            f"scatter: scatter_list is for the process {root}, which sends; leave it out on rank {of.rank()}."
        )
    buffer, parts = _buffer(tensor, True), [_buffer(source, False) for source in sources]

    def task(communicator: Communicator) -> None:
        communicator.scatter([part.array for part in parts] if parts else None, buffer.array, root)
        buffer.finish()

    return _run(group, f"scatter of {tensor.dtype} from {root}", task, async_op, [tensor])


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
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.reduce_scatter(result, [tensor([1.0, 2.0])])
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    if is_outside(group):
        return None
    of = group_of(group)
    as_tensor("reduce_scatter", "output", output)
    check_reduction("reduce_scatter", op, output.array.dtype)
    sources = tensors_of("reduce_scatter", "input_list", input_list, of.size(), output.dtype)
    check_pair("reduce_scatter", output, sources[of.rank()])
    buffer, parts = _buffer(output, True), [_buffer(source, False) for source in sources]

    def task(communicator: Communicator) -> None:
        communicator.reduce_scatter([part.array for part in parts], buffer.array, op)
        buffer.finish()

    return _run(group, f"reduce_scatter of {_sizes(sources)}, {op.name}", task, async_op, [output])


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    *,
    input_split_sizes: Sequence[int] | None = None,
) -> Work | None:
    """Joins the tensors of all processes and hands each its part.

    Args:
        output: what is written.
        input: as much for each process, behind each other.
        op: how; `ReduceOp.SUM` and its like.
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
        input_split_sizes: how many rows are for each process, where that differs.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.reduce_scatter_tensor(result, tensor([1.0, 2.0]))
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    if is_outside(group):
        return None
    who, size = "reduce_scatter_tensor", group_of(group).size()
    as_tensor(who, "output", output)
    as_tensor(who, "input", input)
    check_reduction(who, op, output.array.dtype)
    if input_split_sizes is None and input.shape.numel() != size * output.shape.numel():
        raise ShapeError(
            f"{who}: input of shape {tuple(input.shape)} has {input.shape.numel()} elements; expected {size} times (one for each "
            f"process) the {output.shape.numel()} of output, of shape {tuple(output.shape)}."
        )
    check_pair(who, output, input, output.shape.numel())
    source, buffer = _buffer(input, False), _buffer(output, True)
    if input_split_sizes is None:
        parts = _equal_parts(source.array, size)
    else:
        parts = _split(who, "input", input, input_split_sizes, size, source.array)
        _check_own_part(who, "output", parts[group_of(group).rank()], buffer.array)

    def task(communicator: Communicator) -> None:
        communicator.reduce_scatter(parts, buffer.array, op)
        buffer.finish()

    return _run(group, f"{who} of {described(input)}, {op.name}", task, async_op, [output])


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Each process hands each a tensor.

    Args:
        output_tensor_list: a list of one tensor for each process, which is written; ragged ones are put into its places.
        input_tensor_list: a list of one tensor for each process.
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = [dynograd.zeros(2)]
    >>> dynograd.distributed.all_to_all(result, [tensor([1.0, 2.0])])
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    [tensor([1., 2.])]
    """
    if is_outside(group):
        return None
    who, of = "all_to_all", group_of(group)
    if isinstance(input_tensor_list, (list, tuple)) and any(map(ragged_rows.is_ragged, input_tensor_list)):
        rows = ragged_rows.all_ragged(who, "input_tensor_list", input_tensor_list, of.size())
        places = ragged_rows.places_for(who, "output_tensor_list", output_tensor_list, of.size())

        def exchange_rows(communicator: Communicator) -> None:
            places[:] = ragged_rows.exchange(communicator, rows)

        return _run(group, f"{who} of ragged tensors", exchange_rows, async_op, places)
    sources = tensors_of(who, "input_tensor_list", input_tensor_list, of.size())
    dtype = sources[0].dtype
    sources = tensors_of(who, "input_tensor_list", input_tensor_list, of.size(), dtype)
    targets = tensors_of(who, "output_tensor_list", output_tensor_list, of.size(), dtype)
    check_pair(who, targets[of.rank()], sources[of.rank()])
    parts, buffers = [_buffer(source, False) for source in sources], [_buffer(target, True) for target in targets]

    def task(communicator: Communicator) -> None:
        communicator.all_to_all([part.array for part in parts], [buffer.array for buffer in buffers])
        for buffer in buffers:
            buffer.finish()

    return _run(group, f"{who} of {dtype}", task, async_op, targets)


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
        async_op: give a handle at once; it is done in the order of the calls.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> result = dynograd.zeros(2)
    >>> dynograd.distributed.all_to_all_single(result, tensor([1.0, 2.0]))
    >>> dynograd.distributed.destroy_process_group()
    >>> result
    tensor([1., 2.])
    """
    if is_outside(group):
        return None
    who, of = "all_to_all_single", group_of(group)
    as_tensor(who, "output", output)
    as_tensor(who, "input", input)
    if output.dtype != input.dtype:
        check_pair(who, output, input, output.shape.numel())
    buffer, source = _buffer(output, True), _buffer(input, False)
    sends = _split(who, "input", input, input_split_sizes, of.size(), source.array)
    receives = _split(who, "output", output, output_split_sizes, of.size(), buffer.array)
    rank = of.rank()
    if sends[rank].size != receives[rank].size:
        raise ShapeError(
            f"{who}: rank {rank} sends {sends[rank].size} elements to itself, and has room for {receives[rank].size}: "
            f"input_split_sizes[{rank}] and output_split_sizes[{rank}] must agree."
        )

    def task(communicator: Communicator) -> None:
        communicator.all_to_all(sends, receives)
        buffer.finish()

    return _run(group, f"{who} of {input.dtype}", task, async_op, [output])


def barrier(group: ProcessGroup | None = None, async_op: bool = False, device_ids: object = None) -> Work | None:
    """Waits for all processes of the group: for none.

    Args:
        group: a group; None is the default one.
        async_op: give a handle at once; it is done in the order of the calls.
        device_ids: not needed.
    Returns:
        A `Work` with `async_op`, else None.

    >>> dynograd.distributed.init_process_group()
    >>> dynograd.distributed.barrier()
    >>> dynograd.distributed.destroy_process_group()
    """
    if is_outside(group):
        return None
    return _run(group, "barrier", lambda communicator: communicator.barrier(), async_op, [])


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
    if is_outside(group):
        return
    of = group_of(group)
    seconds = seconds_of(timeout, of.timeout)
    of.run("monitored_barrier", lambda communicator: communicator.monitored_barrier(seconds))
