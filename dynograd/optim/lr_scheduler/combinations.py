"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from dynograd.optim.lr_scheduler.base import LRScheduler, set_value, values_of
from dynograd.optim.lr_scheduler.plateaus import ReduceLROnPlateau
from dynograd.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Combination(LRScheduler):
    """What the two share: checks, and the state of the parts inside the state."""

    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
        who = type(self).__name__
        for number, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{who}: {scheduler!r:.60} at index {number} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{who} does not support `ReduceLROnPlateau` scheduler as it requires a value to be specified when calling `step`, "
                    f"but got one at index {number}. Step it by itself."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{who} expects all schedulers to belong to the same optimizer, but got scheduler {type(scheduler).__name__} at "
                    f"index {number} has {type(scheduler.optimizer).__name__} {id(scheduler.optimizer):#x}, which is different from "
                    f"{type(optimizer).__name__} {id(optimizer):#x}."
                )

    def _update_lr(self, epoch: int | None = None) -> None:
        """Begins again at step 0, as a sequence that this is a part of asks for."""
        for group in self.optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        _rewind(self)
        self._initial_step()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, with the parts' own states.

        Returns:
            a dict of the schedule's fields.

        >>> from dynograd.optim.lr_scheduler import ChainedScheduler, ExponentialLR
        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> len(ChainedScheduler([ExponentialLR(optimizer, gamma=0.5)]).state_dict()["_schedulers"])
        1
        """
        state = {name: value for name, value in self.__dict__.items() if name not in ("optimizer", "_schedulers")}
        return state | {"_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict`, each part its own.

        Args:
            state_dict: what `state_dict()` gave.

        >>> from dynograd.optim.lr_scheduler import ChainedScheduler, ExponentialLR
        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = ChainedScheduler([ExponentialLR(optimizer, gamma=0.5)])
        >>> scheduler.load_state_dict(scheduler.state_dict())
        """
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Combination):
    """One schedule after another: from step `milestones[i]` on, `schedulers[i + 1]` goes on, beginning with its step 0.

    Args:
        optimizer: whose groups are scheduled.
        schedulers: schedules of it, one more than milestones.
        milestones: steps, growing.
        last_epoch: the step to go on after; -1 begins.
    Raises:
        ValueError: no schedules, another number of them, or schedules of another optimizer.

    >>> from dynograd.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> parts = [ConstantLR(optimizer, factor=0.5, total_iters=2), ExponentialLR(optimizer, gamma=0.5)]
    >>> scheduler = SequentialLR(optimizer, parts, milestones=[2])
    >>> for _ in range(4):
    ...     print(scheduler.get_last_lr())
    ...     optimizer.step()
    ...     scheduler.step()
    [0.5]
    [0.5]
    [1.0]
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to {len(milestones)}."
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        self._initial_step()
        self.last_epoch = last_epoch + 1

    def _initial_step(self) -> None:
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self.last_epoch = 0
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Takes back the first step of the parts, which each made when it was built; the constructor calls it.

        Args:
            sched: the schedule whose parts are meant; this one when left out.

        >>> from dynograd.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> parts = [ConstantLR(optimizer, factor=0.5), ExponentialLR(optimizer, gamma=0.5)]
        >>> scheduler = SequentialLR(optimizer, parts, milestones=[2])
        >>> scheduler.recursive_undo()
        >>> parts[0].last_epoch
        -1
        """
        undone = self if sched is None else sched
        if hasattr(undone, "_schedulers"):
            for scheduler in undone._schedulers:
                self.recursive_undo(scheduler)
        elif hasattr(undone, "last_epoch"):
            undone.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Goes on to the next rates.

        >>> from dynograd.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> parts = [ConstantLR(optimizer, factor=0.5), ExponentialLR(optimizer, gamma=0.5)]
        >>> scheduler = SequentialLR(optimizer, parts, milestones=[1])
        >>> optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [1.0]
        """
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combination):
    """All schedules at once: each multiplies the rate that the one before has set.

    Args:
        schedulers: schedules of one optimizer, at least one.
        optimizer: that one; taken from them when left out.
    Raises:
        ValueError: no schedules, or schedules of different optimizers.

    >>> from dynograd.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = ChainedScheduler([ConstantLR(optimizer, factor=0.5), ExponentialLR(optimizer, gamma=0.5)])
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        chosen = getattr(schedulers[0], "optimizer", None) if optimizer is None else optimizer
        self._check(schedulers, chosen)  # type: ignore[arg-type]
        self._schedulers = schedulers
        self.optimizer = chosen  # type: ignore[assignment]
        self._last_lr = values_of(self.optimizer, "lr")

    def _initial_step(self) -> None:
        for scheduler in self._schedulers:
            scheduler._initial_step()
        self._last_lr = values_of(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Steps every part.

        >>> from dynograd.optim.lr_scheduler import ChainedScheduler, ExponentialLR
        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = ChainedScheduler([ExponentialLR(optimizer, gamma=0.5), ExponentialLR(optimizer, gamma=0.1)])
        >>> optimizer.step(); scheduler.step()
        >>> scheduler.get_last_lr()
        [0.05]
        """
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values_of(self.optimizer, "lr")


def _rewind(schedule: Any) -> None:
    for part in getattr(schedule, "_schedulers", ()):
        _rewind(part)
    schedule.last_epoch = -1
