"""What optimizers share whose update is written with tensor operations: options, states, and the steps that can be recorded."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.kernels import kernel
from dynograd.ops.elementwise.complexes import view_as_real
from dynograd.optim.optimizer import Optimizer
from dynograd.optim.options import check_pair, check_range, check_single, scalar
from dynograd.optim.states import new_step
from dynograd.optim.together import Rule
from dynograd.tensor.tensor import Tensor, wrap

__all__ = [
    "Elementwise",
    "added",
    "check_common",
    "count_in_tensors",
    "counted",
    "directed",
    "move",
    "rate",
    "real",
    "real_array",
    "shift",
]

# Options that older state_dicts lack, and what they stood for then.
_LATER_OPTIONS = {
    "foreach": None,
    "fused": None,
    "maximize": False,
    "capturable": False,
    "differentiable": False,
    "decoupled_weight_decay": False,
    "momentum": 0,
    "centered": False,
}


class Elementwise(Optimizer):
    """Base of optimizers that treat elements alike: states of the parameter's shape, and `update` made of operations.

    A subclass names its states (`names`); `update` may then be recorded as it is (`differentiable=True`).

    Args:
        params, defaults: as for `Optimizer`.
    Raises:
        TypeError, ValueError: as `Optimizer`.

    >>> isinstance(dynograd.optim.RMSprop([dynograd.zeros(2)]), dynograd.optim.elementwise.Elementwise)
    True
    """

    elementwise = True

    table_step: str | None = None
    """The kernel that updates all plain parameters of a group together, on a CPU."""

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The states beside the counters: tensors like the parameter, zero before the first step.

        Args:
            group: the options.
        Returns:
            names, a tuple.
        Raises:
            NotImplementedError: the class has none.

        >>> optimizer = dynograd.optim.RMSprop([dynograd.zeros(2)])
        >>> optimizer.names(optimizer.param_groups[0])
        ('square_avg',)
        """
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for option, value in _LATER_OPTIONS.items():
                if option in self.defaults:
                    group.setdefault(option, value)
            for p in group["params"]:
                count_in_tensors(self.state.get(p) or {}, self.counters, group, p)

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(group, p)} | {name: wrap(arrays.zeros_like(p.array)) for name in self.names(group)}

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        """The options as `table_step` takes them.

        Args:
            group: the options.
        Returns:
            numbers, a tuple.
        Raises:
            NotImplementedError: the class has none.

        >>> optimizer = dynograd.optim.Adadelta([dynograd.zeros(2)], lr=0.5)
        >>> len(optimizer.numbers(optimizer.param_groups[0])) > 0
        True
        """
        raise NotImplementedError

    def rule(self, group: dict[str, Any]) -> Rule | None:
        if self.table_step is None or any([type(p.array) is arrays.CudaArray for p in group["params"]]):
            return None
        return Rule(self.table_step, (*self.counters, *self.names(group)), self.numbers(group))

    def update_recorded(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if p.is_complex():
            raise RuntimeError(
                f"{type(self).__name__}: differentiable=True does not take complex parameters. Optimize their real view."
            )
        for name, value in state.items():
            if name not in self.counters:  # what an earlier step saved for backward stays as it was
                state[name] = value.clone()
        self.update(p, g, state, group)


def count_in_tensors(state: dict[str, Any], counters: tuple[str, ...], group: dict[str, Any], p: Tensor) -> None:
    """Makes tensors of counters that are numbers, as in old state_dicts."""
    for name in counters:
        if name in state and not isinstance(state[name], Tensor):
            counter = new_step(group, p)
            arrays.write(counter.array, float(state[name]))
            state[name] = counter


def check_common(who: str, lr: Any, eps: Any = 0, weight_decay: Any = 0, betas: Any = (0, 0)) -> None:
    """The checks of options that most optimizers have."""
    check_single(who, "lr", lr, None, None)
    check_range(who, "learning rate", lr)
    check_range(who, "epsilon value", eps)
    check_pair(who, "betas", betas)
    check_range(who, "beta parameter at index 0", betas[0], below=1)
    check_range(who, "beta parameter at index 1", betas[1], below=1)
    check_range(who, "weight_decay value", weight_decay)


def counted(state: dict[str, Any]) -> float:
    """Counts the step, and gives its number."""
    count = state["step"].array
    step = count.item() + 1
    arrays.write(count, step)
    return step


def rate(group: dict[str, Any]) -> Any:
    """The learning rate: a number, or a tensor without dimensions where gradients shall flow into it."""
    return scalar(group["lr"]) if group.get("differentiable") else float(group["lr"])


def directed(p: Any, g: Any, group: dict[str, Any]) -> Tensor:
    """The gradient to go down: negated to maximize, with the L2 penalty unless the decay is decoupled."""
    weight_decay = group.get("weight_decay", 0)
    if group["maximize"]:
        g = -g
    if weight_decay and not group.get("decoupled_weight_decay"):
        g = g.add(p, alpha=weight_decay)
    return g


def real(*tensors: Any) -> Any:
    """Complex tensors as (real, imaginary) in a last dimension: most optimizers treat the two as numbers of their own."""
    return [view_as_real(x) if x.is_complex() else x for x in tensors]


def real_array(array: Any) -> Array:
    """The same of an array, whose dtype kernels of real numbers do not look at."""
    return array if array.dtype.kind != "c" else kernel("packing", "real_view", array)(array)


def added(x: Any, number: float, group: dict[str, Any]) -> Tensor:
    """`x + number`; in `x`, which nobody else holds, unless the step is recorded."""
    return x + number if group.get("differentiable") else x.add_(number)


def move(p: Any, numerator: Any, denominator: Any, size: Any) -> None:
    """p = p - size * numerator / denominator."""
    if isinstance(size, Tensor):
        p.sub_(size * numerator / denominator)
    else:
        p.addcdiv_(numerator, denominator, value=-size)


def shift(p: Any, x: Any, size: Any) -> None:
    """p = p - size * x."""
    if isinstance(size, Tensor):
        p.sub_(size * x)
    else:
        p.sub_(x, alpha=size)
