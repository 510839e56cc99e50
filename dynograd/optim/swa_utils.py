"""Averages of a model's weights over training: `AveragedModel` (SWA and EMA), `update_bn` for its statistics, and the rates of `SWALR`."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.base.dtypes import int64
from dynograd.base.hints import DeviceLike
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.nn.layers.batchnorm import _BatchNorm
from dynograd.nn.module import Module
from dynograd.optim.lr_scheduler.base import LRScheduler, per_group, warn_if_asked_outside
from dynograd.optim.optimizer import Optimizer
from dynograd.tensor.creation import tensor
from dynograd.tensor.tensor import Tensor

__all__ = [
    "AveragedModel",
    "SWALR",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """The exponential moving average of one parameter, for `AveragedModel(avg_fn=)`.

    Args:
        decay: how much of the average is kept, from 0 to 1.
    Returns:
        `(average, current, n) -> decay * average + (1 - decay) * current`.
    Raises:
        ValueError: decay outside [0, 1].

    >>> dynograd.optim.swa_utils.get_ema_avg_fn(0.75)(tensor(4.0), tensor(8.0), 1)
    tensor(5.)
    """
    _check_decay("get_ema_avg_fn", decay)

    def ema_update(average: Tensor, current: Tensor, num_averaged: Any) -> Any:
        with no_grad():
            return decay * average + (1 - decay) * current

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """The average of one parameter in which all models count the same, for `AveragedModel(avg_fn=)`.

    Returns:
        `(average, current, n) -> average + (current - average) / (n + 1)`.

    >>> dynograd.optim.swa_utils.get_swa_avg_fn()(tensor(4.0), tensor(8.0), 1)
    tensor(6.)
    """

    def swa_update(average: Tensor, current: Tensor, num_averaged: Any) -> Any:
        with no_grad():
            return average + (current - average) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """As `get_ema_avg_fn` for lists of tensors, written into the first: for `AveragedModel(multi_avg_fn=)`.

    Args:
        decay: how much of the average is kept, from 0 to 1.
    Returns:
        `(averages, currents, n) -> None`.
    Raises:
        ValueError: decay outside [0, 1].

    >>> averages = [tensor(4.0)]
    >>> dynograd.optim.swa_utils.get_ema_multi_avg_fn(0.75)(averages, [tensor(8.0)], 1)
    >>> averages
    [tensor(5.)]
    """
    _check_decay("get_ema_multi_avg_fn", decay)
    one_by_one = get_ema_avg_fn(decay)

    def ema_update(averages: list[Any], currents: list[Any], num_averaged: Any) -> None:
        _move(averages, currents, 1 - decay, lambda *pair: one_by_one(*pair, num_averaged))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """As `get_swa_avg_fn` for lists of tensors, written into the first: for `AveragedModel(multi_avg_fn=)`.

    Returns:
        `(averages, currents, n) -> None`.

    >>> averages = [tensor(4.0)]
    >>> dynograd.optim.swa_utils.get_swa_multi_avg_fn()(averages, [tensor(8.0)], tensor(1))
    >>> averages
    [tensor(6.)]
    """
    one_by_one = get_swa_avg_fn()

    def swa_update(averages: list[Any], currents: list[Any], num_averaged: Any) -> None:
        _move(averages, currents, 1 / (float(num_averaged) + 1), lambda *pair: one_by_one(*pair, num_averaged))

    return swa_update


class AveragedModel(Module):
    """A copy of `model` whose parameters follow the average over all `update_parameters(model)`; the first one copies them.

    Its state_dict has the copy under `module.` and the count `n_averaged`, as PyTorch's; the averaging function is not in it.

    Args:
        model: what is copied.
        device: where the copy lies; None: where the model does.
        avg_fn: `(average, current, n) -> new average` of one parameter; default: all models count the same.
        multi_avg_fn: `(averages, currents, n)`, which writes into a whole list of one dtype: faster.
        use_buffers: average buffers too; otherwise they are copied, and `update_bn` can measure them after training.
    Shape: whatever `model` takes and gives.
    Raises:
        AssertionError: both functions.
    Source: Izmailov et al., Averaging weights leads to wider optima and better generalization, 2018 (arXiv:1803.05407).

    >>> model = dynograd.nn.Linear(1, 1)
    >>> averaged = dynograd.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = dynograd.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.detach(), averaged.n_averaged
    (tensor([[3.]]), tensor(3))
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: DeviceLike = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: Only one of avg_fn and multi_avg_fn should be provided, got both.")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: object, **kwargs: object) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the parameters (and with `use_buffers` the buffers) of `model` into the average.

        Args:
            model: of the same parameters as the copy.

        >>> model = dynograd.nn.Linear(1, 1)
        >>> averaged = dynograd.optim.swa_utils.AveragedModel(model)
        >>> averaged.update_parameters(model)
        >>> averaged.n_averaged
        tensor(1)
        """
        with no_grad():
            averages = _averaged(self.module, self.use_buffers)
            currents = [new.detach().to(mine.device) for mine, new in zip(averages, _averaged(model, self.use_buffers))]
            if int(self.n_averaged) == 0:
                for mine, current in zip(averages, currents):
                    mine.copy_(current)
            elif self.avg_fn is not None:
                for mine, current in zip(averages, currents):
                    mine.copy_(self.avg_fn(mine, current, self.n_averaged.to(mine.device)))
            else:
                self._update_together(averages, currents)
            if not self.use_buffers:
                for mine, new in zip(self.module.buffers(), model.buffers(), strict=True):
                    mine.detach().copy_(new.detach())
            self.n_averaged.add_(1)

    def _update_together(self, averages: list[Any], currents: list[Any]) -> None:
        update = self.multi_avg_fn or get_swa_multi_avg_fn()
        groups: dict[Any, tuple[list[Any], list[Any]]] = {}
        for mine, current in zip(averages, currents):
            group = groups.setdefault((str(mine.device), mine.dtype), ([], []))
            group[0].append(mine)
            group[1].append(current)
        for group in groups.values():
            update(*group, self.n_averaged.to(group[0][0].device))


def update_bn(loader: Iterable[Any], model: Module, device: DeviceLike = None) -> None:
    """Measures the running statistics of all batch norms of `model` anew, in one pass over `loader`.

    The rest of the model stays as it is, also its mode. A model without batch norm reads nothing.

    Args:
        loader: gives inputs, or lists and tuples whose first element is the input.
        model: whose batch norms are measured, in place.
        device: where the inputs are moved to first.

    >>> model = dynograd.nn.BatchNorm1d(1)
    >>> dynograd.optim.swa_utils.update_bn([tensor([[1.0], [3.0]]), tensor([[5.0], [7.0]])], model)
    >>> model.running_mean
    tensor([4.])
    """
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None  # the average over all batches
    with no_grad():
        for batch in loader:
            input = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(input if device is None else input.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Moves each group's rate to `swa_lr` within `anneal_epochs` steps, from whatever it is then; there it stays.

    Args:
        optimizer: whose groups are scheduled.
        swa_lr: the last rate; one, or a list with one for each group.
        anneal_epochs: how many steps, 0 or more.
        anneal_strategy: "cos" or "linear".
        last_epoch: the step to go on after; -1 begins.
    Raises:
        ValueError: another strategy, no whole number of steps, or another number of rates than groups.
    Source: Izmailov et al., Averaging weights leads to wider optima and better generalization, 2018 (arXiv:1803.05407).

    >>> optimizer = dynograd.optim.SGD([dynograd.zeros(1)], lr=1.0)
    >>> scheduler = dynograd.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     scheduler.step()
    ...     print(scheduler.get_last_lr())
    [0.75]
    [0.5]
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"SWALR: anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy!r}."
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"SWALR: anneal_epochs must be equal or greater than 0 (an integer), got {anneal_epochs!r}."
            )
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups):
            group["swa_lr"] = rate
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        warn_if_asked_outside(self)
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            aim = group["swa_lr"]
            start = aim if before == 1 else (group["lr"] - before * aim) / (1 - before)
            rates.append(aim * now + start * (1 - now))
        return rates

    def _share(self, step: int) -> float:
        """How much of the way is gone after `step` steps."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2


def _check_decay(who: str, decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"{who}: Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _averaged(model: Module, use_buffers: bool) -> list[Any]:
    tensors = itertools.chain(model.parameters(), model.buffers() if use_buffers else ())
    return [tensor.detach() for tensor in tensors]


def _move(averages: list[Any], currents: list[Any], share: float, one_by_one: Callable[..., Any]) -> None:
    """`share` of the way to the current values, in place; integers one by one, rounded down."""
    with no_grad():
        for mine, current in zip(averages, currents):
            if mine.is_floating_point() or mine.is_complex():
                mine.lerp_(current, share)
            else:
                mine.copy_(one_by_one(mine, current))


_show_plainly(globals())
