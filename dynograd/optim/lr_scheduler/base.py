"""LRScheduler: counts steps and writes what `get_lr` says into the optimizer's groups. Field names are PyTorch's, so state goes across."""

from __future__ import annotations

import contextlib
import types
import warnings
from collections.abc import Iterator
from typing import Any

from dynograd import arrays
from dynograd.autograd.writes import stamp
from dynograd.errors import user_level
from dynograd.optim.optimizer import Optimizer
from dynograd.tensor.tensor import Tensor

__all__ = ["LRScheduler"]


class LRScheduler:
    """Base of the schedules. A subclass writes `get_lr`, which gives the rate of each group for step `self.last_epoch`.

    The first rates are set when the schedule is made. `base_lrs` are the groups' rates before that (their `initial_lr`).

    Args:
        optimizer: whose groups are scheduled.
        last_epoch: the step to go on after; -1 begins. Otherwise the groups need an `initial_lr`, as saved in `state_dict()`.
    Raises:
        TypeError: `optimizer` is none.
        KeyError: a group has no `initial_lr`, and last_epoch is not -1.

    >>> class Halving(dynograd.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.125]
    """

    _get_lr_called_within_step = False
    _is_initial = False

    optimizer: Optimizer
    base_lrs: list[Any]
    last_epoch: int
    _last_lr: list[Any]
    _step_count: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = check_optimizer(self, optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with last_epoch >= 0 (got "
                    f"{last_epoch}). Load the optimizer's state_dict first, or begin with last_epoch=-1."
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Any]:
        """The rate of each group for `last_epoch`, which `step` writes into them; ask `get_last_lr` for the rates in use.

        Returns:
            a list of rates, one for each group.
        Raises:
            NotImplementedError: the class has none.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = dynograd.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
        >>> scheduler.get_last_lr()
        [0.5]
        """
        raise NotImplementedError(f"{type(self).__name__}: a schedule needs get_lr(), the list of each group's rate.")

    def get_last_lr(self) -> list[Any]:
        """The rates in use.

        Returns:
            a list of rates, one for each group.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> dynograd.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5).get_last_lr()
        [1.0]
        """
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next rates; call it after `optimizer.step()`.

        Args:
            epoch: PyTorch's old way to name the step, with a warning.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = dynograd.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step(); scheduler.step()
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        if self._step_count == 1 and not self.optimizer._step_called and "step" not in self.optimizer.__dict__:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
                "`optimizer.step()` before `lr_scheduler.step()`, or the first value of the learning rate schedule is skipped.",
                UserWarning,
                stacklevel=user_level(),
            )
        self._step_count += 1
        if epoch is not None:
            warn_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed_form = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
        with asking_for_lr(self):
            rates = self.get_lr() if closed_form is None else closed_form()
        self._set_lr(rates)

    def _set_lr(self, rates: list[Any]) -> None:
        groups = self.optimizer.param_groups
        if len(rates) != len(groups):
            raise ValueError(
                f"{type(self).__name__}: the schedule gives {len(rates)} learning rates, but the optimizer has {len(groups)} param "
                f"groups. Make the schedule after the last add_param_group."
            )
        for group, rate in zip(groups, rates):
            set_value(group, "lr", rate)
        self._last_lr = values_of(self.optimizer, "lr")

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; save the optimizer's own state_dict beside it.

        Returns:
            a dict of the schedule's fields.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> scheduler = dynograd.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> scheduler.state_dict()["last_epoch"]
        0
        """
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict` of the same kind of schedule returned. Load the optimizer's state too, after this is made.

        Args:
            state_dict: what `state_dict()` gave.

        >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
        >>> first, second = (dynograd.optim.lr_scheduler.ExponentialLR(optimizer, gamma) for gamma in (0.5, 0.9))
        >>> second.load_state_dict(first.state_dict())
        >>> second.gamma
        0.5
        """
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """The name that older programs subclass; it is `LRScheduler`.

    Args: those of `LRScheduler`.

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> issubclass(dynograd.optim.lr_scheduler._LRScheduler, dynograd.optim.lr_scheduler.LRScheduler)
    True
    """


def check_optimizer(schedule: Any, optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"{type(schedule).__name__}: {type(optimizer).__name__} is not an Optimizer. Pass the optimizer itself."
        )
    return optimizer


def own(value: Any) -> Any:
    """A copy of a tensor option; numbers as they are."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, option: str) -> list[Any]:
    """The option of each group."""
    return [own(group[option]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], option: str, value: Any) -> None:
    """Sets a group's option; a tensor keeps its identity and is written into."""
    current = group.get(option)
    if isinstance(current, Tensor):
        arrays.write(current.array, value.array if isinstance(value, Tensor) else value)
        stamp(current.array)
    else:
        group[option] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value for each group, from a list or from one for all."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [own(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups has {count}."
        )
    return [own(entry) for entry in value]


@contextlib.contextmanager
def asking_for_lr(schedule: LRScheduler) -> Iterator[None]:
    """Inside, `get_lr` is called by the schedule itself."""
    schedule._get_lr_called_within_step = True
    try:
        yield
    finally:
        schedule._get_lr_called_within_step = False


def warn_if_asked_outside(schedule: LRScheduler) -> None:
    """For `get_lr` methods, whose value is that of the next step when a user calls them."""
    if not schedule._get_lr_called_within_step:
        warnings.warn(
            "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            UserWarning,
            stacklevel=user_level(),
        )


def warn_epoch() -> None:
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
        "`scheduler.step()`; with an epoch, the closed form is used where there is one.",
        UserWarning,
        stacklevel=user_level(),
    )


def saved_functions(functions: list[Any]) -> list[Any]:
    """The fields of callable objects; None for functions, which cannot be saved."""
    return [
        None if isinstance(function, types.FunctionType) else dict(getattr(function, "__dict__", {}))
        for function in functions
    ]


def load_functions(functions: list[Any], saved: list[Any]) -> None:
    for function, fields in zip(functions, saved):
        if fields is not None:
            function.__dict__.update(fields)
