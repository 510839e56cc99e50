"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from dynograd.base.hints import DeviceLike
from dynograd.distributed import ragged_rows
from dynograd.distributed.buffers import Buffer, as_tensor
from dynograd.distributed.collectives import is_outside
from dynograd.distributed.communicators.protocol import Communicator, Message
from dynograd.distributed.groups import group_of, peer
from dynograd.distributed.objects import packed, unpacked
from dynograd.distributed.process_groups import ProcessGroup, Work
from dynograd.errors import RankError
from dynograd.ragged.tensor import RaggedTensor
from dynograd.tensor.tensor import Tensor

__all__ = [
    "P2POp",
    "batch_isend_irecv",
    "irecv",
    "isend",
    "recv",
    "recv_object_list",
    "send",
    "send_object_list",
]


_OBJECTS = 1 << 20  # the tag of messages with objects, which no tensor's message has


class _MessageWork(Work):
    """The handle of a message that is under way."""

    def __init__(self, message: Message, buffer: Buffer | _Rows, is_received: bool) -> None:
        self._message, self._buffer, self._is_received = message, buffer, is_received
        self._is_finished = False
        self._failure: BaseException | None = None

    def _finish(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            if self._is_received:
                self._buffer.finish()

    def is_completed(self) -> bool:
        if self._failure is not None:
            return True
        if not self._message.test():
            return False
        self._finish()
        return True

    def is_success(self) -> bool:
        return self._failure is None and self.is_completed()

    def exception(self) -> BaseException | None:
        return self._failure

    def source_rank(self) -> int:
        self.wait()
        return self._message.source

    def result(self) -> list[Any]:
        self.wait()
        return [self._buffer.tensor]

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        if self._failure is not None:
            raise self._failure
        try:
            self._message.wait()
        except RankError as error:
            self._failure = error
            raise
        self._finish()
        return True


class _Rows:
    """In place of a buffer: a ragged tensor, and what it is to become."""

    def __init__(self, tensor: Tensor, received: ragged_rows.Rows | None = None) -> None:
        self.tensor, self._received = tensor, received

    def finish(self) -> None:
        if self._received is not None:
            ragged_rows.put(self.tensor, self._received.tensor())


def _engine(group: ProcessGroup, who: str) -> Communicator:
    if group.communicator is None:
        raise RuntimeError(f"{who}: the group was destroyed. Make another one with init_process_group or new_group.")
    return group.communicator


def _other(who: str, name: str, group: ProcessGroup, global_rank: int | None, group_rank: int | None) -> int:
    """The rank in the group of another process."""
    rank = peer(who, name, group, global_rank, group_rank, None)
    if rank == group.rank():
        raise ValueError(f"{who}: {name}={rank} is this process itself. Copy the tensor: target.copy_(source).")
    return rank


def _tag(who: str, tag: int) -> int:
    if isinstance(tag, bool) or not isinstance(tag, int) or not 0 <= tag < 1 << 20:
        raise ValueError(f"{who}: expected tag to be a number from 0 to {(1 << 20) - 1}, got {tag!r}.")
    return tag


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begins to send a tensor to a process; it must not be changed until the work is done.

    Args:
        tensor: what is sent; of a ragged one, a copy.
        dst, group_dst: the process by its rank in the world or in the group.
        group: a group; None is the default one.
        tag: a number from 0 to 1,048,575 that the receiver names, too.
    Returns:
        A `Work`; None for a process outside the group.

    >>> distributed = dynograd.distributed
    >>> def program():
    ...     x = tensor([distributed.get_rank() + 0.5])
    ...     work = distributed.isend(x, 1) if distributed.get_rank() == 0 else distributed.irecv(x, 0)
    ...     work.wait()
    ...     return x
    >>> distributed.simulate(program, ranks=2)
    [tensor([0.5000]), tensor([0.5000])]
    """
    if is_outside(group):
        return None
    of = group_of(group)
    engine, to = _engine(of, "isend"), _other("isend", "dst", of, dst, group_dst)
    if isinstance(tensor, RaggedTensor):
        return _MessageWork(ragged_rows.RowsSent(of, tensor, to, _tag("isend", tag)), _Rows(tensor), False)
    buffer = Buffer(as_tensor("isend", "tensor", tensor), False)
    return _MessageWork(engine.start_send(buffer.array, to, _tag("isend", tag)), buffer, False)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begins to receive a tensor from a process; it must not be read until the work is done.

    Args:
        tensor: of the shape and dtype of what is sent; it is written. A ragged one takes the rows that come.
        src, group_src: the process by its rank in the world or in the group; None takes what comes first.
        group: a group; None is the default one.
        tag: a number that the sender names, too.
    Returns:
        A `Work`; None for a process outside the group.

    >>> distributed = dynograd.distributed
    >>> def program():
    ...     if distributed.get_rank() == 1:
    ...         return distributed.isend(tensor([7]), 0).wait()
    ...     x = tensor([0])
    ...     return distributed.irecv(x).source_rank(), x.item()
    >>> distributed.simulate(program, ranks=2)
    [(1, 7), True]
    """
    if is_outside(group):
        return None
    of = group_of(group)
    engine = _engine(of, "irecv")
    source = None if src is None and group_src is None else _other("irecv", "src", of, src, group_src)
    if isinstance(tensor, RaggedTensor):
        message = ragged_rows.RowsReceived(engine, source, _tag("irecv", tag))
        return _MessageWork(message, _Rows(tensor, message.rows), True)
    buffer = Buffer(as_tensor("irecv", "tensor", tensor), True)
    return _MessageWork(engine.start_receive(buffer.array, source, _tag("irecv", tag)), buffer, True)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Sends a tensor to a process, and waits until it may be changed again.

    Args:
        tensor: what is sent.
        dst, group_dst: the process by its rank in the world or in the group.
        group: a group; None is the default one.
        tag: a number that the receiver names, too.

    >>> distributed = dynograd.distributed
    >>> def program():
    ...     x = tensor([distributed.get_rank() + 0.5])
    ...     distributed.send(x, 1) if distributed.get_rank() == 0 else distributed.recv(x, 0)
    ...     return x.item()
    >>> distributed.simulate(program, ranks=2)
    [0.5, 0.5]
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()
        ragged_rows.deliver(group_of(group))


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receives a tensor from a process.

    Args:
        tensor: of the shape and dtype of what is sent; it is written. A ragged one takes the rows that come.
        src, group_src: the process by its rank in the world or in the group; None takes what comes first.
        group: a group; None is the default one.
        tag: a number that the sender names, too.
    Returns:
        The sender's rank in the world; -1 for a process outside the group.

    >>> distributed = dynograd.distributed
    >>> def program():
    ...     x = tensor([5.0])
    ...     return distributed.send(x, 0) if distributed.get_rank() else distributed.recv(x)
    >>> distributed.simulate(program, ranks=2)
    [1, None]
    """
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if work is None else group_of(group).ranks[work.source_rank()]


class P2POp:
    """A message for `batch_isend_irecv`: `isend` or `irecv`, and what it is called with.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent or written.
        peer, group_peer: the other process by its rank in the world or in the group.
        group: a group; None is the default one.
        tag: a number that both sides name.

    >>> distributed = dynograd.distributed
    >>> def program():  # each sends to the next one, in a ring
    ...     rank, size = distributed.get_rank(), distributed.get_world_size()
    ...     x, y = tensor([rank]), tensor([0])
    ...     to, source = (rank + 1) % size, (rank - 1) % size
    ...     both = [distributed.P2POp(distributed.isend, x, to), distributed.P2POp(distributed.irecv, y, source)]
    ...     for work in distributed.batch_isend_irecv(both):
    ...         work.wait()
    ...     return y.item()
    >>> distributed.simulate(program, ranks=3)
    [2, 0, 1]
    """

    def __init__(
        self,
        op: Callable[..., Work | None],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise RuntimeError(f"P2POp: expected op to be distributed.isend or distributed.irecv, got {op!r}.")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begins several messages at once.

    Args:
        p2p_op_list: a list of `P2POp`.
    Returns:
        A `Work` for each.

    >>> distributed = dynograd.distributed
    >>> def program():  # each sends to the next, in a ring
    ...     rank, received = distributed.get_rank(), dynograd.zeros(1)
    ...     sent = tensor([float(rank)])
    ...     ops = [distributed.P2POp(distributed.isend, sent, (rank + 1) % 3), distributed.P2POp(distributed.irecv, received, (rank - 1) % 3)]
    ...     for work in distributed.batch_isend_irecv(ops):
    ...         work.wait()
    ...     return received.item()
    >>> distributed.simulate(program, ranks=3)
    [2.0, 0.0, 1.0]
    """
    if not p2p_op_list or not all([isinstance(op, P2POp) for op in p2p_op_list]):
        raise ValueError(f"batch_isend_irecv: expected a list of at least one P2POp, got {p2p_op_list!r}.")
    works = [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
    return [work for work in works if work is not None]


def send_object_list(
    object_list: Sequence[Any],
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: DeviceLike = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends objects to a process, pickled.

    Args:
        object_list: the objects.
        dst, group_dst: the process by its rank in the world or in the group.
        group: a group; None is the default one.
        device, use_batch: not needed.

    >>> distributed = dynograd.distributed
    >>> def program():
    ...     objects = ["a", {"b": 1}] if distributed.get_rank() == 0 else [None, None]
    ...     distributed.send_object_list(objects, 1) if distributed.get_rank() == 0 else distributed.recv_object_list(objects, 0)
    ...     return objects
    >>> distributed.simulate(program, ranks=2)[1]
    ['a', {'b': 1}]
    """
    if is_outside(group):
        return
    of = group_of(group)
    engine, to = _engine(of, "send_object_list"), _other("send_object_list", "dst", of, dst, group_dst)
    data = packed(list(object_list))
    engine.start_send(np.array([data.size], np.int64), to, _OBJECTS).wait()
    engine.start_send(data, to, _OBJECTS).wait()


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: DeviceLike = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receives objects from a process.

    Args:
        object_list: as many places as are sent; it is written.
        src, group_src: the process by its rank in the world or in the group; None takes what comes first.
        group: a group; None is the default one.
        device, use_batch: not needed.
    Returns:
        The sender's rank in the world; -1 for a process outside the group.

    >>> distributed = dynograd.distributed
    >>> def program():
    ...     objects = [{"loss": 1.5}, "done"] if distributed.get_rank() == 0 else [None, None]
    ...     if distributed.get_rank() == 0:
    ...         distributed.send_object_list(objects, 1)
    ...     else:
    ...         distributed.recv_object_list(objects, 0)
    ...     return objects
    >>> distributed.simulate(program)[1]
    [{'loss': 1.5}, 'done']
    """
    if is_outside(group):
        return -1
    of = group_of(group)
    engine = _engine(of, "recv_object_list")
    source = None if src is None and group_src is None else _other("recv_object_list", "src", of, src, group_src)
    length = np.empty(1, np.int64)
    first = engine.start_receive(length, source, _OBJECTS)
    first.wait()
    data = np.empty(int(length[0]), np.uint8)
    engine.start_receive(data, first.source, _OBJECTS).wait()
    received = unpacked(data)
    if len(received) != len(object_list):
        raise ValueError(
            f"recv_object_list: rank {of.ranks[first.source]} sent {len(received)} objects, and object_list has {len(object_list)} "
            f"places. Both lists must be of one length."
        )
    object_list[:] = received
    return of.ranks[first.source]
