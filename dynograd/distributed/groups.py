"""The group of processes that train together: here always this one process."""

from __future__ import annotations

import datetime
import enum
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

__all__ = [
    "Backend",
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "destroy_process_group",
    "get_backend",
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


class ReduceOp(enum.Enum):
    """How a reduction joins the numbers of the group's processes: SUM, AVG, PRODUCT, MIN, MAX and their like.

    >>> dynograd.distributed.ReduceOp.SUM.name
    'SUM'
    """

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


ReduceOp.RedOpType = ReduceOp


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


class ProcessGroup:
    """One process: rank 0 of 1.

    Args:
        backend: the name that it was made with.

    >>> dynograd.distributed.init_process_group()
    >>> group = dynograd.distributed.group.WORLD
    >>> dynograd.distributed.destroy_process_group()
    >>> group.rank(), group.size()
    (0, 1)
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def rank(self) -> int:
        """The place of this process.

        Returns:
            0.
        """
        return 0

    def size(self) -> int:
        """How many processes there are.

        Returns:
            1.
        """
        return 1

    def name(self) -> str:
        """The name of the backend.

        Returns:
            A text.
        """
        return self.backend

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.backend}: rank 0 of 1>"


class GroupMember:
    """Marks processes outside a group.

    >>> dynograd.distributed.GroupMember.NON_GROUP_MEMBER is None
    False
    """

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


class _GroupNames(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        return GroupMember.WORLD


class group(metaclass=_GroupNames):
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
    return GroupMember.WORLD is not None


def is_nccl_available() -> bool:
    """False: there is no communication between GPUs.

    Returns:
        False.

    >>> dynograd.distributed.is_nccl_available()
    False
    """
    return False


def is_gloo_available() -> bool:
    """True: what a group of one asks of Gloo is there.

    Returns:
        True.

    >>> dynograd.distributed.is_gloo_available()
    True
    """
    return True


def is_mpi_available() -> bool:
    """False: there is no MPI.

    Returns:
        False.

    >>> dynograd.distributed.is_mpi_available()
    False
    """
    return False


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
    """Makes the default group, of this process alone.

    Args:
        backend: accepted by PyTorch's names ("gloo", "nccl", "mpi"); they are the same for one process.
        init_method, store, timeout, group_name, pg_options, device_id: accepted; nobody has to be found.
        world_size, rank: 1 and 0; where they are left out, WORLD_SIZE and RANK of the environment.
    Raises:
        ValueError: a group is there already, or rank and size do not fit.
        RuntimeError: a world of more than one process.

    >>> dynograd.distributed.init_process_group("gloo")
    >>> dynograd.distributed.get_rank(), dynograd.distributed.get_world_size()
    (0, 1)
    >>> dynograd.distributed.destroy_process_group()
    """
    if GroupMember.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice! Call destroy_process_group() first.")
    name = "gloo" if backend is None else str(backend).lower()
    if name not in _BACKENDS:
        raise ValueError(
            f"init_process_group: Unknown c10d backend type {name!r}; known are {', '.join(_BACKENDS[:4])}."
        )
    size = int(os.environ.get("WORLD_SIZE", 1)) if world_size == -1 else int(world_size)
    place = int(os.environ.get("RANK", 0)) if rank == -1 else int(rank)
    if size < 1 or not 0 <= place < size:
        raise ValueError(f"init_process_group: rank must be in [0, world_size), got rank={place}, world_size={size}.")
    if size > 1:
        raise RuntimeError(
            f"init_process_group: world_size={size}, but there is no communication between processes here: a group has one. Run one "
            f"process (WORLD_SIZE=1 RANK=0, without torchrun); on the CPU it uses all cores (dynograd.set_num_threads)."
        )
    GroupMember.WORLD = ProcessGroup(name)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forgets a group; the default one when none is named.

    Args:
        group: a group; None is the default one.

    >>> dynograd.distributed.init_process_group()
    >>> dynograd.distributed.destroy_process_group()
    >>> dynograd.distributed.is_initialized()
    False
    """
    destroyed = group_of(group)
    if destroyed is GroupMember.WORLD:
        GroupMember.WORLD = None


def group_of(group: ProcessGroup | None) -> ProcessGroup:
    """The group that is meant, the default one for None."""
    if group is None:
        if GroupMember.WORLD is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        return GroupMember.WORLD
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
    """A group of some of the processes: of this one, or `GroupMember.NON_GROUP_MEMBER` when `ranks` is empty.

    Args:
        ranks: [0], [] or None: all.
        backend: its name; that of the default group unless given.
        timeout, pg_options, use_local_synchronization, group_desc, device_id: accepted; nobody has to be waited for.
    Returns:
        A `ProcessGroup`.

    >>> dynograd.distributed.init_process_group()
    >>> group = dynograd.distributed.new_group([0])
    >>> dynograd.distributed.destroy_process_group()
    >>> group.size()
    1
    """
    world = group_of(None)
    members = [0] if ranks is None else [int(rank) for rank in ranks]
    if any([rank != 0 for rank in members]):
        raise ValueError(
            f"new_group: the new group's rank should be within the world's, which has rank 0 alone; got {members}."
        )
    return ProcessGroup(backend or world.backend) if members else GroupMember.NON_GROUP_MEMBER


def get_rank(group: ProcessGroup | None = None) -> int:
    """0: the place of this process in the group.

    Args:
        group: a group; None is the default one.
    Returns:
        0.
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
    """1: how many processes the group has.

    Args:
        group: a group; None is the default one.
    Returns:
        1.
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


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """[0]: the group's processes by their ranks in the world.

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
    group_of(group)
    return [0]


def get_global_rank(group: ProcessGroup | None, group_rank: int) -> int:
    """The rank in the world of the group's process `group_rank`.

    Args:
        group: a group.
        group_rank: 0.
    Returns:
        0.

    >>> dynograd.distributed.init_process_group()
    >>> rank = dynograd.distributed.get_global_rank(dynograd.distributed.group.WORLD, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> rank
    0
    """
    group_of(group)
    check_rank("get_global_rank", "group_rank", group_rank)
    return 0


def get_group_rank(group: ProcessGroup | None, global_rank: int) -> int:
    """The rank in the group of the world's process `global_rank`.

    Args:
        group: a group.
        global_rank: 0.
    Returns:
        0.

    >>> dynograd.distributed.init_process_group()
    >>> rank = dynograd.distributed.get_group_rank(dynograd.distributed.group.WORLD, 0)
    >>> dynograd.distributed.destroy_process_group()
    >>> rank
    0
    """
    group_of(group)
    check_rank("get_group_rank", "global_rank", global_rank)
    return 0


def check_rank(who: str, name: str, rank: Any) -> None:
    """Raises for a process that is not there."""
    if rank is not None and rank != 0:
        raise ValueError(f"{who}: {name}={rank} is not part of the group, which has rank 0 alone.")
