"""Ranks in one process: a thread for each, with collectives that really move numbers. For tests, and for trying a program before it has a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dynograd.base import random_streams
from dynograd.distributed.communicators.nccl import Gpus
from dynograd.distributed.communicators.threads import Meeting, Simulated
from dynograd.distributed.process_groups import ProcessGroup, world
from dynograd.errors import RankError

__all__ = ["simulate"]


def simulate(
    program: Callable[..., Any], *args: object, ranks: int = 2, timeout: float = 60.0, **kwargs: object
) -> list[Any]:
    """Calls `program(*args, **kwargs)` once for each rank, in threads of their own; each is in a group of `ranks` processes.

    What a program shares with the others by Python (globals, `args`) is shared; what it makes is its own, and so are its random numbers: each
    rank begins where the caller is.

    Args:
        program: a function. It need not call `init_process_group`.
        args, kwargs: for it.
        ranks: how many.
        timeout: how long ranks wait for each other, in seconds.
    Returns:
        What the calls have given, by rank.
    Raises:
        RankError: ranks called different collectives, or one did not come; what a rank has raised is raised itself.

    >>> distributed = dynograd.distributed
    >>> def program():
    ...     x = tensor([distributed.get_rank() + 1.0])
    ...     distributed.all_reduce(x)
    ...     return x.item()
    >>> distributed.simulate(program, ranks=4)
    [10.0, 10.0, 10.0, 10.0]
    """
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise ValueError(f"simulate: expected ranks to be a number from 1, got {ranks!r}.")
    meeting = Meeting(ranks, timeout)
    results: list[Any] = [None] * ranks
    place = random_streams.default_generator.state()

    def run(rank: int) -> None:
        group = ProcessGroup(Gpus(Simulated(meeting, rank)), range(ranks), "threads", timeout)
        try:
            with world.simulated(group), random_streams.apart(place):
                results[rank] = program(*args, **kwargs)
                last = world.get()
                if last is not None:
                    last.close()
        finally:
            error = sys.exception()
            if error is None:
                meeting.leave(rank)
            else:
                meeting.end(f"rank {rank} ended with an error ({type(error).__name__}: {error})")

    with ThreadPoolExecutor(ranks, "rank") as threads:
        runs = [threads.submit(run, rank) for rank in range(ranks)]
    failures = {rank: error for rank, ended in enumerate(runs) if (error := ended.exception()) is not None}
    if failures:
        own = (rank for rank, error in failures.items() if not isinstance(error, RankError))
        rank = next(own, min(failures))
        failures[rank].add_note(f"in rank {rank} of {ranks}")
        raise failures[rank]
    return results
