"""How this process finds the others: what launchers put into the environment, and MPI."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

import numpy as np

from dynograd.distributed import board as boards
from dynograd.distributed.board import Board
from dynograd.distributed.communicators.alone import Alone
from dynograd.distributed.communicators.protocol import Communicator
from dynograd.distributed.watching import Watch

_Error = TypeVar("_Error", bound=BaseException)

__all__ = [
    "BEGAN",
    "BOARD",
    "START",
    "Launched",
    "communicator_of_world",
    "is_of_this_job",
    "launched",
    "note_step",
    "told_by",
]

BOARD = "DYNOGRAD_BOARD"  # the environment's name for the board's file
BEGAN = "DYNOGRAD_BEGAN"  # when the launcher has started the job for the first time, by time.time()
START = "python -m dynograd.run -n {size} {program}"

# What launchers say to each process: (rank, size, rank on its host), of which the last may be absent.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),  # python -m dynograd.run, torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


@dataclass(frozen=True)
class Launched:
    """What a launcher has said: the rank and the number of processes, and which variables said it."""

    rank: int
    size: int
    variables: tuple[str, str]


def launched(environment: Mapping[str, str] = os.environ) -> Launched | None:
    """What the environment says of this process; None where no launcher has started it.

    >>> from dynograd.distributed import starting
    >>> starting.launched({"PMI_RANK": "1", "PMI_SIZE": "4"})
    Launched(rank=1, size=4, variables=('PMI_RANK', 'PMI_SIZE'))
    """
    for rank, size, _ in _LAUNCHERS:
        if rank in environment and size in environment:
            return Launched(_number(rank, environment[rank]), _number(size, environment[size]), (rank, size))
    return None


def _number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(
            f"init_process_group: the environment's {variable} should be a number, got {text!r}."
        ) from None


def is_of_this_job(path: str) -> bool:
    """Whether a file was written since the launcher has started this job, which it has started again meanwhile."""
    began = os.environ.get(BEGAN)
    return (
        began is not None
        and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
        and os.path.getmtime(path) >= float(began)
    )


def communicator_of_world(rank: int, size: int, patience: float) -> Communicator:
    """An engine for all processes."""
    if size == 1:
        return Alone()
    mpi = _mpi(rank, size)
    comm = mpi.COMM_WORLD.Dup()
    _check_world(comm, rank, size)
    board, place, places = _shared_board(mpi, comm, rank)
    _tell_of_the_end(board, place)
    board.records["files"][place] = boards.shortened("\n".join(boards.shared_files()), "files")
    from dynograd.distributed.communicators.mpi import Mpi
    from dynograd.distributed.communicators.nccl import Gpus

    return Gpus(Mpi(comm, Watch(board, place, places, 0, patience)))


def _mpi(rank: int, size: int) -> ModuleType:
    start = START.format(size=size, program=Path(sys.argv[0] or "train.py").name)
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RuntimeError(
            f"init_process_group: world_size={size} needs mpi4py, which is not installed ({error}). Install the extra mpi "
            f"(pip install 'dynograd[mpi]', on a cluster mpi4py beside its own MPI) and start with `{start}`."
        ) from error
    except RuntimeError as error:
        raise RuntimeError(
            f"init_process_group: world_size={size} needs an MPI library, and mpi4py finds none ({str(error).splitlines()[0]}). "
            f"Install one (pip install mpich), and start with `{start}`."
        ) from error
    return MPI


def _check_world(comm: Any, rank: int, size: int) -> None:
    if comm.Get_size() != size:
        start = START.format(size=size, program=Path(sys.argv[0] or "train.py").name)
        raise RuntimeError(
            f"init_process_group: world_size={size}, but MPI started {comm.Get_size()}. Start the program with `{start}`: "
            f"torchrun and multiprocessing start processes that MPI does not know."
        )
    if comm.Get_rank() != rank:
        raise RuntimeError(
            f"init_process_group: rank={rank}, but MPI calls this process rank {comm.Get_rank()}. Leave rank and world_size out."
        )


def _shared_board(mpi: Any, comm: Any, rank: int) -> tuple[Board, int, list[int | None]]:
    """The board of this host, this process's place on it, and the places of all ranks (None: on another host)."""
    host = comm.Split_type(mpi.COMM_TYPE_SHARED, rank)
    place, count = host.Get_rank(), host.Get_size()
    path = os.environ.get(BOARD)
    is_of_launcher = host.allreduce(int(bool(path) and os.path.exists(str(path)))) == count
    if not is_of_launcher:
        path = None
        if place == 0:
            handle, path = tempfile.mkstemp(prefix="dynograd-board-")
            os.close(handle)
        path = host.bcast(path, 0)
    assert path is not None
    board = Board(path, count)
    board.enter(place, rank)
    ranks = host.allgather(rank)
    if not is_of_launcher and place == 0:
        os.unlink(path)  # all have it in memory: allgather has waited for them
    host.Free()
    places: list[int | None] = [None] * comm.Get_size()
    for other, its_rank in enumerate(ranks):
        places[its_rank] = other
    return board, place, places


_mine: list[tuple[Board, int]] = []


def _tell_of_the_end(board: Board, place: int) -> None:
    """Writes on the board how this process ends, as far as it can."""
    if not _mine:
        atexit.register(_ended)
        before = sys.excepthook

        def hook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
            failed(value)
            before(kind, value, traceback)

        sys.excepthook = hook
    _mine[:] = [(board, place)]


def told_by(error: _Error, rank: int | None, reason: str) -> _Error:
    """Notes on an error for the launcher's report which rank it is about, and what that rank did."""
    error.__dict__.update(rank=rank, reason=reason)
    return error


def failed(error: BaseException) -> None:
    """Writes on the board that this process ends with an error, or because another rank has ended (`error.rank`, where it has one)."""
    reason = getattr(error, "reason", "") or f"ended with {type(error).__name__}: {error}"
    for board, place in _mine:
        record = board.records[place : place + 1]
        record["blamed"] = _place_of(error, board, place)
        record["error"] = boards.shortened(reason, "error")
        record["state"] = boards.FAILED


def _place_of(error: BaseException, board: Board, own: int) -> int:
    """The place on the board of the rank that an error is about; -1: it is about this one, or about one on another host."""
    place = getattr(error, "place", None)
    if place is None:
        rank = getattr(error, "rank", None)
        places = [] if rank is None else np.flatnonzero(board.records["rank"] == rank).tolist()
        place = places[0] if places else own
    return -1 if place == own else int(place)


def _ended() -> None:
    for board, place in _mine:
        record = board.records[place : place + 1]
        if record["state"] == boards.RUNNING:
            record["state"] = boards.ENDED


def note_step(step: int) -> None:
    """Writes on the board which step this process is in: who looks for it is told."""
    for board, place in _mine:
        board.records["step"][place] = step
