"""Schedules along half a cosine, once or with restarts."""

from __future__ import annotations

import math
from typing import Any

from dynograd.optim.lr_scheduler.base import LRScheduler, asking_for_lr, values_of, warn_if_asked_outside
from dynograd.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts"]


class CosineAnnealingLR(LRScheduler):
    """From the initial rate down to `eta_min` in `T_max` steps along half a cosine; further steps go up again.

    rate = eta_min + (initial - eta_min) * (1 + cos(pi * step / T_max)) / 2, computed from the rate before, so that other
    schedules may change the rate as well.

    Args:
        optimizer: whose groups are scheduled.
        T_max: steps until the lowest rate, at least 1.
        eta_min: the lowest rate.
        last_epoch: the step to go on after; -1 begins.
    Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2016 (arXiv:1608.03983), eq.
        5, without the restarts.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step(); scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_if_asked_outside(self)
        rates = values_of(self.optimizer, "lr")
        step, period, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return rates
        if (step - 1 - period) % (2 * period) == 0:  # the rate before is eta_min: no factor leads up from there
            rise = (1 - math.cos(math.pi / period)) / 2
            return [rate + (lr - low) * rise for rate, lr in zip(rates, self.base_lrs, strict=True)]
        factor = (1 + math.cos(math.pi * step / period)) / (1 + math.cos(math.pi * (step - 1) / period))
        return [factor * (rate - low) + low for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (lr - self.eta_min) * height for lr in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate down to `eta_min`, again and again: `T_0` steps first, each time `T_mult` times as many.

    `step(epoch)` may be given fractions of an epoch, e.g. `epoch + batch / batches`.

    Args:
        optimizer: whose groups are scheduled.
        T_0: steps of the first fall, at least 1.
        T_mult: by how much each fall is longer than the one before, at least 1.
        eta_min: the lowest rate.
        last_epoch: the step to go on after; -1 begins.
    Raises:
        ValueError: T_0 or T_mult is no integer above 0, or eta_min no number.
    Source: Loshchilov and Hutter, SGDR: Stochastic Gradient Descent with Warm Restarts, 2016 (arXiv:1608.03983), eq. 5.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> for _ in range(3):
    ...     print(scheduler.get_last_lr())
    ...     scheduler.step()
    [1.0]
    [0.5]
    [1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        who = type(self).__name__
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"{who}: Expected positive integer T_0, but got {T_0}.")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"{who}: Expected integer T_mult >= 1, but got {T_mult}.")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"{who}: Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}.")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_if_asked_outside(self)
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (lr - self.eta_min) * height for lr in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes on by one step, or to `epoch`, which may be a fraction.

        Args:
            epoch: 0 or more; one step further when left out.
        Raises:
            ValueError: a negative epoch.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = dynograd.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> optimizer.step(); scheduler.step(3.0)
        >>> scheduler.get_last_lr()
        [0.5]
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"{type(self).__name__}: Expected non-negative epoch, but got {epoch}.")
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch)
        with asking_for_lr(self):
            rates = self.get_lr()
        self._set_lr(rates)

    def _go_to(self, epoch: float) -> None:
        """Finds the period that `epoch` is in, and the place in it."""
        if self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
            return
        start, period = 0, self.T_0
        while epoch >= start + period:
            start += period
            period *= self.T_mult
        self.T_i, self.T_cur = period, epoch - start
