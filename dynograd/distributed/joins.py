"""`torch.distributed.algorithms.join`: processes with different numbers of inputs."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Any

import numpy as np

from dynograd.base.devices import device
from dynograd.distributed.process_groups import ProcessGroup
from dynograd.distributed.reductions import ReduceOp

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process that has run out of input does while others go on.

    >>> from dynograd.distributed.joins import JoinHook
    >>> JoinHook().main_hook()
    """

    def main_hook(self) -> None:
        """Called in each step of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called when all processes have run out of input.

        Args:
            is_last_joiner: whether this one was the last.
        """


class Joinable(abc.ABC):
    """What `Join` asks of an object, such as a distributed module: a hook, a device and a group.

    >>> from dynograd.distributed.joins import Joinable
    >>> isinstance(dynograd.nn.Linear(1, 1), Joinable)
    False
    """

    _join: Join | None = None  # the context that it is in
    _active: np.ndarray  # what each process said of its step

    @abc.abstractmethod
    def join_hook(self, **kwargs: object) -> JoinHook:
        """The hook.

        Args:
            kwargs: those of `Join`.
        Returns:
            A `JoinHook`.
        """

    @property
    @abc.abstractmethod
    def join_device(self) -> device:
        """Where its collectives run."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The group."""


class Join:
    """Lets processes with different numbers of inputs train together: those that have run out take part in the others' collectives.

    Args:
        joinables: what takes part, all of one group.
        enable: False does nothing.
        throw_on_early_termination: as soon as one process has run out, all raise.
        kwargs: for the hooks.

    >>> from dynograd.distributed.joins import Join
    >>> with Join([]):
    ...     print("training")
    training
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: object
    ) -> None:
        groups = {id(joinable.join_process_group): joinable.join_process_group for joinable in joinables}
        if len(groups) > 1:
            raise ValueError(f"Join: expected joinables of one group, got {len(groups)} groups.")
        self._joinables = joinables if enable else []
        self._group: Any = next(iter(groups.values()), None)
        self._throws = throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in self._joinables]

    def __enter__(self) -> Join:
        for joinable in self._joinables:
            joinable._join = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for joinable in self._joinables:
            joinable._join = None
        if kind is not None or not self._joinables:
            return
        is_last = True
        while (active := self._active(0)).any():
            if self._throws:
                raise RuntimeError("Join: this process exhausted all inputs before others.")
            is_last = False
            for joinable, hook in zip(self._joinables, self._hooks):
                joinable._active = active
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _active(self, own: int) -> np.ndarray:
        """What each process says of its step; 0 of one that has run out."""
        flags = np.zeros(self._group.size(), np.int64)
        flags[self._group.rank()] = own
        self._group.run("who has inputs", lambda communicator: communicator.all_reduce([flags], ReduceOp.SUM))
        return flags

    @staticmethod
    def notify_join_context(joinable: Joinable, step: int = 1) -> None:
        """Tells the others that this process goes on; called by each joinable before its collectives of a step.

        Args:
            joinable: what takes part.
            step: a number above 0 that the others are told.
        """
        join = getattr(joinable, "_join", None)
        if join is None or join._joinables[0] is not joinable:
            return
        active = join._active(step)
        if join._throws and not active.all():
            raise RuntimeError(
                f"Join: detected at least one rank that exhausted inputs: {np.flatnonzero(active == 0).tolist()}."
            )
        for other in join._joinables:
            other._active = active
