"""Groups of processes that train together: this process alone, or the processes that a launcher has started."""

from __future__ import annotations

import datetime
import importlib.util
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from dynograd.base.devices import as_device
from dynograd.cuda import nccl
from dynograd.distributed import starting
from dynograd.distributed.process_groups import ProcessGroup, as_rank, seconds_of, world
from dynograd.distributed.reductions import ReduceOp

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "destroy_process_group",
    "get_backend",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "group_of",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
]

default_pg_timeout = datetime.timedelta(minutes=30)
"""How long PyTorch's processes wait for each other; a group of one never waits."""

_BACKENDS = ("gloo", "nccl", "mpi", "ucc", "cpu:gloo,cuda:nccl", "cpu:gloo")


class Backend(str):
    """The name of a way to communicate, in small letters; there is none in a group of one.

    Args:
        name: of the backend.

    >>> dynograd.distributed.Backend("GLOO")
    'gloo'
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"
    backend_list: ClassVar = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]
    default_device_backend_map: ClassVar = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}.")
        return super().__new__(cls, name.lower())


class _Member(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return world.get()


class GroupMember(metaclass=_Member):
    """Marks processes outside a group.

    >>> dynograd.distributed.GroupMember.NON_GROUP_MEMBER is None
    False
    """

    NON_GROUP_MEMBER = -100


class group(metaclass=_Member):
    """`group.WORLD` is the default group, None before `init_process_group`.

    >>> dynograd.distributed.group.WORLD is None
    True
    """


def is_available() -> bool:
    """True: a group of one process can be made.

    Returns:
        True.

    >>> dynograd.distributed.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` has been called.

    Returns:
        True or False.

    >>> dynograd.distributed.is_initialized()
    False
    """
    return world.get() is not None


def is_nccl_available() -> bool:
    """Whether nccl4py is installed, by which arrays go from GPU to GPU; without it they go through the memory of the host.

    Returns:
        True or False.

    >>> isinstance(dynograd.distributed.is_nccl_available(), bool)
    True
    """
    return nccl.is_available()


def is_gloo_available() -> bool:
    """True: "gloo" is another name for MPI here, and a group of one needs neither.

    Returns:
        True.

    >>> dynograd.distributed.is_gloo_available()
    True
    """
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed, by which processes find each other.

    Returns:
        True or False.

    >>> isinstance(dynograd.distributed.is_mpi_available(), bool)
    True
    """
    return importlib.util.find_spec("mpi4py") is not None


def is_ucc_available() -> bool:
    """False: there is no UCC.

    Returns:
        False.

    >>> dynograd.distributed.is_ucc_available()
    False
    """
    return False


def is_xccl_available() -> bool:
    """False: there is no XCCL.

    Returns:
        False.

    >>> dynograd.distributed.is_xccl_available()
    False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process.

    Returns:
        True or False.

    >>> dynograd.distributed.is_torchelastic_launched()
    False
    """
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: object = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
) -> None:
    """Makes the default group: of all processes that a launcher has started (`python -m dynograd.run -n 4 train.py`), or of this one alone.

    Args:
        backend: "mpi", "gloo" (another name for it) or "nccl"; None is "gloo". Each takes tensors of the CPU and of GPUs: those go by NCCL
            where nccl4py is installed and each process has a GPU of its own, else through the memory of the host.
        init_method, store, group_name, pg_options, device_id: accepted; the launcher knows where the processes are.
        timeout: how long processes wait for each other, in seconds or as a `timedelta`; None is 30 minutes, or what the launcher was told.
        world_size, rank: where they are left out, those of the launcher: RANK and WORLD_SIZE, or what MPI and SLURM set; else 1 and 0.
    Raises:
        ValueError: a group is there already, or rank and size do not fit.
        RuntimeError: several processes without mpi4py, or that MPI has not started.

    >>> dynograd.distributed.init_process_group("gloo")
    >>> dynograd.distributed.get_rank(), dynograd.distributed.get_world_size()
    (0, 1)
    >>> dynograd.distributed.destroy_process_group()
    """
    if world.get() is not None:
        raise ValueError("trying to initialize the default process group twice! Call destroy_process_group() first.")
    name = "gloo" if backend is None else str(backend).lower()
    if name not in _BACKENDS:
        raise ValueError(
            f"init_process_group: Unknown c10d backend type {name!r}; known are {', '.join(_BACKENDS[:4])}."
        )
    told = starting.launched()
    size = (told.size if told else 1) if world_size == -1 else int(world_size)
    place = (told.rank if told else 0) if rank == -1 else int(rank)
    if size < 1 or not 0 <= place < size:
        raise ValueError(f"init_process_group: rank must be in [0, world_size), got rank={place}, world_size={size}.")
    seconds = seconds_of(timeout, float(os.environ.get("DYNOGRAD_WATCH", default_pg_timeout.total_seconds())))
    world.set(ProcessGroup(starting.communicator_of_world(place, size, seconds), range(size), name, seconds))


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forgets a group, when what it was asked is done; the default one when none is named.

    Args:
        group: a group; None is the default one.

    >>> dynograd.distributed.init_process_group()
    >>> dynograd.distributed.destroy_process_group()
    >>> dynograd.distributed.is_initialized()
    False
    """
    destroyed = group_of(group)
    destroyed.close()
    if destroyed is world.get():
        world.set(None)


def group_of(group: ProcessGroup | None) -> ProcessGroup:
    """The group that is meant, the default one for None."""
    if group is None:
        default = world.get()
        if default is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        return default
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"expected a ProcessGroup from new_group(), got {type(group).__name__} ({group!r}).")
    return group


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
) -> ProcessGroup | object:
    """A group of some of the processes. All processes of the world make the same groups in the same order, members or not.

    Args:
        ranks: of the members in the world, in the order of their ranks in the group; None: all.
        timeout: how long they wait for each other; that of the default group unless given.
        backend: its name; that of the default group unless given.
        pg_options, use_local_synchronization, group_desc, device_id: accepted.
    Returns:
        A `ProcessGroup`, or `GroupMember.NON_GROUP_MEMBER` for processes outside.

    >>> dynograd.distributed.init_process_group()
    >>> group = dynograd.distributed.new_group([0])
    >>> dynograd.distributed.destroy_process_group()
    >>> group.size()
    1
    """
    everyone = group_of(None)
    members = list(range(everyone.size())) if ranks is None else [int(rank) for rank in ranks]
    if any([not 0 <= rank < everyone.size() for rank in members]) or len(set(members)) < len(members):
        known = "rank 0 alone" if everyone.size() == 1 else f"the ranks 0 to {everyone.size() - 1}"
        raise ValueError(
            f"new_group: the new group's ranks should be within the world's, each once, which has {known}; got {members}."
        )
    part = everyone.run(f"new_group of {members}", lambda communicator: communicator.split(members))
    if part is None:
        return GroupMember.NON_GROUP_MEMBER
    return ProcessGroup(part, members, backend or everyone.backend, seconds_of(timeout, everyone.timeout))


def get_rank(group: ProcessGroup | None = None) -> int:
    """The place of this process in the group.

    Args:
        group: a group; None is the default one.
    Returns:
        A number from 0; -1 for a process outside the group.
    Raises:
        ValueError: there is no default group: call `init_process_group`.

    >>> dynograd.distributed.init_process_group()
    >>> rank = dynograd.distributed.get_rank()
    >>> dynograd.distributed.destroy_process_group()
    >>> rank
    0
    """
    return -1 if group == GroupMember.NON_GROUP_MEMBER else group_of(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """How many processes the group has.

    Args:
        group: a group; None is the default one.
    Returns:
        A number; -1 for a process outside the group.
    Raises:
        ValueError: there is no default group: call `init_process_group`.

    >>> dynograd.distributed.init_process_group()
    >>> size = dynograd.distributed.get_world_size()
    >>> dynograd.distributed.destroy_process_group()
    >>> size
    1
    """
    return -1 if group == GroupMember.NON_GROUP_MEMBER else group_of(group).size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name that the group was made with.

    Args:
        group: a group; None is the default one.
    Returns:
        A text.
    Raises:
        ValueError: there is no default group: call `init_process_group`.

    >>> dynograd.distributed.init_process_group()
    >>> name = dynograd.distributed.get_backend()
    >>> dynograd.distributed.destroy_process_group()
    >>> name
    'gloo'
    """
    return group_of(group).name()


def get_default_backend_for_device(device: Any) -> str:
    """The name of the backend that tensors of a device take.

    Args:
        device: a device or its name.
    Returns:
        "gloo" for the CPU, "nccl" for GPUs.
    Raises:
        ValueError: no backend takes it.

    >>> dynograd.distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    kind = as_device(device).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(
            f"get_default_backend_for_device: no backend is registered for device {str(device)!r}; there are "
            f"{', '.join(Backend.default_device_backend_map)}."
        )
    return Backend.default_device_backend_map[kind]


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The group's processes by their ranks in the world.

    Args:
        group: a group; None is the default one.
    Returns:
        A list.

    >>> dynograd.distributed.init_process_group()
    >>> ranks = dynograd.distributed.get_process_group_ranks()
    >>> dynograd.distributed.destroy_process_group()
    >>> ranks
    [0]
    """
    return list(group_of(group).ranks)


def get_global_rank(group: ProcessGroup | None, group_rank: int) -> int:
    """The rank in the world of the group's process `group_rank`.

    Args:
        group: a group.
        group_rank: a rank in it.
    Returns:
        A rank.

    >>> dynograd.distributed.init_process_group()
    >>> rank = dynograd.distributed.get_global_rank(dynograd.distributed.group.WORLD, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> rank
    0
    """
    of = group_of(group)
    return of.ranks[as_rank("get_global_rank", "group_rank", group_rank, of.size())]


def get_group_rank(group: ProcessGroup | None, global_rank: int) -> int:
    """The rank in the group of the world's process `global_rank`.

    Args:
        group: a group.
        global_rank: a rank in the world.
    Returns:
        A rank.
    Raises:
        ValueError: that process is not in the group.

    >>> dynograd.distributed.init_process_group()
    >>> rank = dynograd.distributed.get_group_rank(dynograd.distributed.group.WORLD, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> rank
    0
    """
    return member("get_group_rank", "global_rank", group_of(group), global_rank)


def member(who: str, name: str, group: ProcessGroup, global_rank: Any) -> int:
    """The rank in the group of a process of the world, checked."""
    if global_rank not in group.ranks or isinstance(global_rank, bool):
        known = "rank 0 alone" if group.ranks == [0] else f"the ranks {group.ranks}"
        raise ValueError(f"{who}: {name}={global_rank!r} is not part of the group, which has {known}.")
    return group.ranks.index(global_rank)


def peer(who: str, name: str, group: ProcessGroup, global_rank: Any, group_rank: Any, default: int | None = 0) -> int:
    """The rank in the group of a process that is named by its rank in the world or in the group, as PyTorch's collectives take them."""
    if global_rank is not None and group_rank is not None:
        raise ValueError(f"{who}: give {name} or group_{name}, not both; got {global_rank!r} and {group_rank!r}.")
    if group_rank is not None:
        return as_rank(who, f"group_{name}", group_rank, group.size())
    if global_rank is None:
        if default is None:
            raise ValueError(f"{who}: give {name}, a rank in the world, or group_{name}, one in the group.")
        return member(who, name, group, default)
    return member(who, name, group, global_rank)
