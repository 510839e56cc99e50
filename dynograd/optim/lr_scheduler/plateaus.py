"""A schedule that reacts to a measured value."""

from __future__ import annotations

import math
from typing import Any, Literal

from dynograd.optim.lr_scheduler.base import LRScheduler, check_optimizer, set_value, values_of, warn_epoch
from dynograd.optim.optimizer import Optimizer
from dynograd.tensor.tensor import Tensor

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` when the value given to `step` has not improved for more than `patience` steps.

    Args:
        optimizer: whose groups are scheduled.
        mode: "min" or "max": which way the value improves.
        factor: less than 1.
        patience: how many steps without improvement are allowed.
        threshold, threshold_mode: how much better counts as an improvement: a part of the best value ("rel") or a difference ("abs").
        cooldown: steps after a reduction in which none is counted.
        min_lr: no rate goes below it; a number, or one for each group.
        eps: smaller changes of the rate are not made.
    Raises:
        ValueError: factor is not below 1, another mode, or another number of min_lrs than groups.
        TypeError: `optimizer` is none.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau: Factor should be < 1.0, got {factor}.")
        self.factor = factor
        self.optimizer = check_optimizer(self, optimizer)
        count = len(optimizer.param_groups)
        self.default_min_lr: float | None = None
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != count:
                raise ValueError(
                    f"ReduceLROnPlateau: expected {count} min_lrs, got {len(min_lr)}: one for each param group."
                )
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"ReduceLROnPlateau: mode {mode} is unknown! Expected 'min' or 'max'.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: threshold mode {threshold_mode} is unknown! Expected 'rel' or 'abs'.")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def _reset(self) -> None:
        """Forgets the values seen so far."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Tensor | float, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the newest value, and reduces the rate where it is time.

        Args:
            metrics: a number or a tensor of one element.
            epoch: PyTorch's old way to name the step, with a warning.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = dynograd.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        >>> scheduler.step(tensor(3.0))
        >>> scheduler.best
        3.0
        """
        current = float(metrics)
        if epoch is not None:
            warn_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values_of(self.optimizer, "lr")

    @property
    def in_cooldown(self) -> bool:
        """Whether a reduction is so recent that none is counted.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> dynograd.optim.lr_scheduler.ReduceLROnPlateau(optimizer).in_cooldown
        False
        """
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        if self.mode == "min":
            return value < (best * (1.0 - self.threshold) if self.threshold_mode == "rel" else best - self.threshold)
        return value > (best * (1.0 + self.threshold) if self.threshold_mode == "rel" else best + self.threshold)

    def _reduce_lr(self, epoch: int) -> None:
        """Writes lower rates; under PyTorch's name and with its argument, because packages put functions of their own here."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}). Append the new groups' values to its `min_lrs`."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                set_value(group, "lr", new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict`.

        Args:
            state_dict: what `state_dict()` gave.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = dynograd.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        >>> scheduler.load_state_dict(scheduler.state_dict())
        """
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
