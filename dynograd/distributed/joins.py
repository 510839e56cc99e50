"""`torch.distributed.algorithms.join` for a group of one process, which has nobody to wait for."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Any

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process that has run out of input does while others go on.

    >>> from dynograd.distributed.joins import JoinHook
    >>> JoinHook().main_hook()
    """

    def main_hook(self) -> None:
        """Called in each step of the others; there are none."""

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
    def join_device(self) -> Any:
        """Where its collectives run."""

    @property
    @abc.abstractmethod
    def join_process_group(self) -> Any:
        """The group."""


class Join:
    """Lets processes with different numbers of inputs train together; in a group of one, the block runs, and the hooks after it.

    Args:
        joinables: what takes part.
        enable: False does nothing.
        throw_on_early_termination: kept for compatibility.
        kwargs: for the hooks.

    >>> from dynograd.distributed.joins import Join
    >>> with Join([]):
    ...     print("training")
    training
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: object
    ) -> None:
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables] if enable else []

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            for hook in self._hooks:
                hook.post_hook(True)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Tells the others that this process goes on; there are none.

        Args:
            joinable: what takes part.
        """
