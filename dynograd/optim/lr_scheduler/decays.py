"""Schedules that multiply the rate by a factor: given by a function, at milestones, or falling with the steps."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from dynograd.optim.lr_scheduler.base import (
    LRScheduler,
    load_functions,
    saved_functions,
    values_of,
    warn_if_asked_outside,
)
from dynograd.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]


class _Chainable(LRScheduler):
    """A schedule whose rate is the rate before times a factor, so that others may change the rate as well."""

    def _factor(self) -> float | None:
        """What the step to `last_epoch` multiplies by; None leaves the rates alone."""
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        warn_if_asked_outside(self)
        factor = self._factor()
        if factor is None:
            return values_of(self.optimizer, "lr")
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _Functions(LRScheduler):
    """A schedule by functions of the step, one for all groups or one for each."""

    lr_lambdas: list[Callable[[int], float]]

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        who, count = type(self).__name__, len(optimizer.param_groups)
        listed = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(listed) != count:
            raise ValueError(f"{who}: Expected {count} lr_lambdas, but got {len(listed)}: one for each param group.")
        for function in listed:
            if not callable(function):
                raise TypeError(f"{who}: lr_lambda should be a function, but got {type(function).__name__}.")
        self.lr_lambdas = listed
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions; of callable objects, their fields.

        Returns:
            a dict of the schedule's fields.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> dynograd.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5).state_dict()["lr_lambdas"]
        [None]
        """
        return super().state_dict() | {"lr_lambdas": saved_functions(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict`; functions stay those of the constructor.

        Args:
            state_dict: what `state_dict()` gave.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = dynograd.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
        >>> scheduler.load_state_dict(scheduler.state_dict())
        """
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        load_functions(self.lr_lambdas, state_dict["lr_lambdas"])


class LambdaLR(_Functions):
    """The initial rate times `lr_lambda(step)`.

    Args:
        optimizer: whose groups are scheduled.
        lr_lambda: a function of the step, or a list with one for each group.
        last_epoch: the step to go on after; -1 begins.
    Raises:
        ValueError: another number of functions than groups.
        TypeError: what is no function.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        warn_if_asked_outside(self)
        return [lr * function(self.last_epoch) for function, lr in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_Functions):
    """The rate before times `lr_lambda(step)`.

    Args:
        optimizer: whose groups are scheduled.
        lr_lambda: a function of the step, or a list with one for each group; first called for step 1.
        last_epoch: the step to go on after; -1 begins.
    Raises:
        ValueError: another number of functions than groups.
        TypeError: what is no function.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.5)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def get_lr(self) -> list[Any]:
        warn_if_asked_outside(self)
        rates = values_of(self.optimizer, "lr")
        if self._is_initial:
            return rates
        return [lr * function(self.last_epoch) for function, lr in zip(self.lr_lambdas, rates, strict=True)]


class StepLR(_Chainable):
    """The rate times `gamma` every `step_size` steps.

    Args:
        optimizer: whose groups are scheduled.
        step_size: how many steps, at least 1.
        gamma: the factor.
        last_epoch: the step to go on after; -1 begins.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(5):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else None

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(_Chainable):
    """The rate times `gamma` at each step of `milestones` (twice where one is listed twice).

    Args:
        optimizer: whose groups are scheduled.
        milestones: steps.
        gamma: the factor.
        last_epoch: the step to go on after; -1 begins.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return self.gamma ** self.milestones[self.last_epoch] if self.last_epoch in self.milestones else None

    def _get_closed_form_lr(self) -> list[Any]:
        milestones = sorted(self.milestones.elements())
        return [lr * self.gamma ** bisect_right(milestones, self.last_epoch) for lr in self.base_lrs]


class ConstantLR(_Chainable):
    """The rate times `factor` until step `total_iters`, then the rate itself.

    Args:
        optimizer: whose groups are scheduled.
        factor: from 0 to 1.
        total_iters: how many steps the factor holds.
        last_epoch: the step to go on after; -1 begins.
    Raises:
        ValueError: factor outside [0, 1].

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.ConstantLR(optimizer, factor=0.25, total_iters=2)
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(
                f"ConstantLR: Constant multiplicative factor expected to be between 0 and 1, got {factor}."
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * (self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)) for lr in self.base_lrs]


class LinearLR(_Chainable):
    """The rate times a factor that goes from `start_factor` to `end_factor` in `total_iters` equal steps: a warm-up.

    Args:
        optimizer: whose groups are scheduled.
        start_factor: above 0, at most 1.
        end_factor: from 0 to 1.
        total_iters: how many steps.
        last_epoch: the step to go on after; -1 begins.
    Raises:
        ValueError: a factor outside its range.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=3)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                f"LinearLR: Starting multiplicative factor expected to be greater than 0 and less or equal to 1, got {start_factor}."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(
                f"LinearLR: Ending multiplicative factor expected to be between 0 and 1, got {end_factor}."
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        rise = self.end_factor - self.start_factor
        return 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * (self.start_factor + (self.end_factor - self.start_factor) * done) for lr in self.base_lrs]


class ExponentialLR(_Chainable):
    """The rate times `gamma` at every step.

    Args:
        optimizer: whose groups are scheduled.
        gamma: the factor.
        last_epoch: the step to go on after; -1 begins.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        return None if self._is_initial else self.gamma

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class PolynomialLR(_Chainable):
    """The initial rate times (1 - step / total_iters) ** power: 0 from step `total_iters` on.

    Args:
        optimizer: whose groups are scheduled.
        total_iters: how many steps.
        power: 1 is a straight line.
        last_epoch: the step to go on after; -1 begins.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return (left / left_before) ** self.power

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]
