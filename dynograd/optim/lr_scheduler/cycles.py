"""Schedules that go up and down between bounds, and move the momentum the other way."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, Literal

from dynograd.optim.lr_scheduler.base import LRScheduler, check_optimizer, per_group, set_value, warn_if_asked_outside
from dynograd.optim.optimizer import Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


class _Cycle(LRScheduler):
    """What the two share: the momentum, which is `momentum` or the first of `betas`."""

    cycle_momentum: bool
    use_beta1: bool

    def _init_momentum(self, base_momentum: Any, max_momentum: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        """Lists of both for the groups; when starting, the groups begin with the largest."""
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                f"{type(self).__name__}: optimizer must support momentum or beta1 with `cycle_momentum` option enabled, and "
                f"{type(optimizer).__name__} has neither. Pass cycle_momentum=False."
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lowest = per_group("base_momentum", optimizer, base_momentum)
        highest = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, lowest, highest):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return lowest, highest

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Cycle):
    """Up from `base_lr` to `max_lr` in `step_size_up` steps, down in `step_size_down`, again and again; momentum goes the other way.

    Args:
        optimizer: whose groups are scheduled.
        base_lr, max_lr: the bounds, a number or one for each group.
        step_size_up, step_size_down: steps of the rise and of the fall, which takes as many when left out.
        mode: "triangular" keeps the height, "triangular2" halves it each cycle, "exp_range" multiplies it by `gamma` each step.
        gamma: the factor of "exp_range".
        scale_fn: the height by cycle or step, instead of `mode`.
        scale_mode: what `scale_fn` takes: "cycle" or "iterations".
        cycle_momentum, base_momentum, max_momentum: whether and between which values momentum (or beta1) moves.
        last_epoch: the step to go on after; -1 begins.
    Raises:
        TypeError: `optimizer` is none.
        ValueError: another mode, another number of rates than groups, or `cycle_momentum` without a momentum.
    Source: Smith, Cyclical Learning Rates for Training Neural Networks, 2015 (arXiv:1506.01186), section 3.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0, momentum=0.9)
    >>> scheduler = dynograd.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5, step_size_up=2)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr(), optimizer.param_groups[0]["momentum"]
    ([0.5], 0.8)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = check_optimizer(self, optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs):
                set_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f"CyclicLR: mode is invalid and scale_fn is None: got {mode!r}, expected 'triangular', 'triangular2' or 'exp_range'."
            )
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom: Any = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._init_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of cycle (or step) `x`, as a part of the full height.

        Args:
            x: the number of the cycle, from 1, or of the step.
        Returns:
            float.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0, momentum=0.9)
        >>> scheduler = dynograd.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5, mode="triangular2")
        >>> scheduler.scale_fn(1), scheduler.scale_fn(2)
        (1.0, 0.5)
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        warn_if_asked_outside(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a `scale_fn` that is an object, its fields.

        Returns:
            a dict of the schedule's fields.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0, momentum=0.9)
        >>> scheduler = dynograd.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5)
        >>> scheduler.state_dict()["last_epoch"]
        0
        """
        state = super().state_dict()
        function = self._scale_fn_custom
        named = function is None or isinstance(function, types.FunctionType)
        return state | {"_scale_fn_custom": None if named else dict(function.__dict__)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict`; the `scale_fn` stays that of the constructor.

        Args:
            state_dict: what `state_dict()` gave.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0, momentum=0.9)
        >>> scheduler = dynograd.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.1, max_lr=0.5)
        >>> scheduler.load_state_dict(scheduler.state_dict())
        """
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "_scale_fn_custom"})
        fields = state_dict.get("_scale_fn_custom")
        if fields is not None:
            self._scale_fn_custom.__dict__.update(fields)


class OneCycleLR(_Cycle):
    """One rise from `max_lr / div_factor` to `max_lr` and one fall far below it, over the whole training; momentum the other way.

    Args:
        optimizer: whose groups are scheduled.
        max_lr: the top, a number or one for each group.
        total_steps: how often `step` will be called; or give `epochs` and `steps_per_epoch`.
        epochs, steps_per_epoch: whose product is the number of steps.
        pct_start: the part of the steps that rises, from 0 to 1.
        anneal_strategy: "cos" or "linear".
        cycle_momentum, base_momentum, max_momentum: whether and between which values momentum (or beta1) moves.
        div_factor: initial_lr = max_lr / div_factor.
        final_div_factor: the end is initial_lr / final_div_factor.
        three_phase: fall back to the initial rate as long as the rise took, then on to the end.
        last_epoch: the step to go on after; -1 begins.
    Raises:
        TypeError: `optimizer` is none.
        ValueError: no number of steps, pct_start outside [0, 1], another strategy; in `step`: more steps than there are.
    Source: Smith and Topin, Super-Convergence, 2017 (arXiv:1708.07120), section 3; with the two phases of fast.ai by default.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=0.1, momentum=0.9)
    >>> scheduler = dynograd.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> print(f"{scheduler.get_last_lr()[0]:.3f}")
    0.040
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = check_optimizer(self, optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: Expected float between 0 and 1 pct_start, but got {pct_start}.")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}."
            )
        rise, last = float(pct_start * self.total_steps), self.total_steps - 1
        if three_phase:
            self._schedule_phases = [
                _phase(rise - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(2 * rise - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases = [
                _phase(rise - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        self._anneal_func_type = anneal_strategy
        highest = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, highest):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._init_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
        return (end - start) * part + start

    def get_lr(self) -> list[Any]:
        warn_if_asked_outside(self)
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"OneCycleLR: Tried to step {step} times. The specified number of total steps is {self.total_steps}. "
                f"Give total_steps = epochs * batches per epoch."
            )
        start = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            start = end
        part = (step - start) / (end - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                self._set_momentum(
                    group, self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], part)
                )
        return rates


def _phase(end_step: float, *names: str) -> dict[str, Any]:
    return {"end_step": end_step} | dict(zip(("start_lr", "end_lr", "start_momentum", "end_momentum"), names))


def _total_steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("OneCycleLR: You must define either total_steps OR (epochs AND steps_per_epoch).")
    counts = (
        {"epochs": epochs, "steps_per_epoch": steps_per_epoch} if total_steps is None else {"total_steps": total_steps}
    )
    product = 1
    for name, value in counts.items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"OneCycleLR: Expected positive integer {name}, but got {value}.")
        product *= value
    return product
