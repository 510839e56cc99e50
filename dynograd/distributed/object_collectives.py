"""Collectives of objects: what pickle knows travels, as tensors do in `collectives`."""

from __future__ import annotations

from typing import Any

from dynograd.base.hints import DeviceLike
from dynograd.distributed import objects
from dynograd.distributed.collectives import is_outside
from dynograd.distributed.communicators.protocol import Communicator
from dynograd.distributed.groups import group_of, peer
from dynograd.distributed.process_groups import ProcessGroup

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


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
    if is_outside(group):
        return
    of = group_of(group)
    if len(object_list) != of.size():
        places = "1 place" if of.size() == 1 else f"{of.size()} places"
        raise ValueError(
            f"all_gather_object: expected object_list to have {places} (one for each process), got {len(object_list)}."
        )
    if of.size() == 1:
        object_list[0] = obj
        return
    object_list[:] = of.run("all_gather_object", lambda communicator: objects.gathered(communicator, obj))


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
    if is_outside(group):
        return
    of = group_of(group)
    root = peer("gather_object", "dst", of, dst, group_dst)
    if of.rank() == root and object_gather_list is None:
        raise ValueError("gather_object: argument object_gather_list must be given on the process dst, got None.")
    if of.rank() != root and object_gather_list:
        raise ValueError(
            f"gather_object: object_gather_list is for the process {root}, which receives; leave it out on rank {of.rank()}."
        )
    gathered = of.run(f"gather_object to {root}", lambda communicator: objects.gathered(communicator, obj))
    if object_gather_list is not None:
        object_gather_list[:] = gathered


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
    if is_outside(group):
        return
    of = group_of(group)
    root = peer("broadcast_object_list", "src", of, src, group_src, None)
    if of.size() == 1:
        return

    def task(communicator: Communicator) -> list[Any]:
        return objects.sent(communicator, list(object_list) if communicator.rank == root else None, root)

    received = of.run(f"broadcast_object_list of {len(object_list)} from {root}", task)
    if of.rank() != root:
        object_list[:] = received


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
    if is_outside(group):
        return
    of = group_of(group)
    root = peer("scatter_object_list", "src", of, src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            f"scatter_object_list: expected scatter_object_output_list to be a list of at least 1 place, got {scatter_object_output_list!r}."
        )
    objects_of_ranks = list(scatter_object_input_list or ()) if of.rank() == root else None
    if of.rank() == root and (not objects_of_ranks or len(objects_of_ranks) != of.size()):
        count = "1 object" if of.size() == 1 else f"{of.size()} objects"
        raise ValueError(
            f"scatter_object_list: expected a list of {count} (one for each process), got {scatter_object_input_list!r}."
        )
    received = of.run(
        f"scatter_object_list from {root}", lambda communicator: objects.sent(communicator, objects_of_ranks, root)
    )
    scatter_object_output_list[0] = received[of.rank()]
