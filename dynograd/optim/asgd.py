"""ASGD: stochastic gradient descent that also keeps the average of the parameters."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.optim.elementwise import Elementwise, check_common, counted, directed, real
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.optim.options import scalar
from dynograd.optim.states import new_step
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["ASGD", "asgd"]


class ASGD(Elementwise):
    """Gradient descent with a falling rate; the average of the parameters over the steps after `t0` is kept in `state[p]["ax"]`.

    g = gradient + weight_decay * p; p = p * (1 - lambd * eta) - eta * g; ax = ax + (p - ax) * mu; then after step t
    eta = lr / (1 + lambd * lr * t)**alpha and mu = 1 / max(1, t - t0). The first eta is lr.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element. A new value takes effect one step later.
        lambd: how much parameters shrink, and how fast the rate falls.
        alpha: the power by which the rate falls.
        t0: the step after which the average starts; until then `ax` is the parameter itself.
        weight_decay: the L2 penalty, added to the gradient.
        foreach, capturable: accepted; `capturable` keeps the counters on the parameter's device.
        maximize: go up instead of down.
        differentiable: record the step, so that gradients flow through it (into the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative lr or weight_decay.
        RuntimeError: in a step: a sparse gradient.
    Source: Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992; rates: Bottou, Large-Scale Machine
        Learning with Stochastic Gradient Descent, 2010.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.ASGD([w], lr=0.1, lambd=0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    counters = ("step", "eta", "mu")
    table_step = "asgd_table_step"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_common("ASGD", lr, weight_decay=weight_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("ax",)

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        numbers = group["lambd"], group["alpha"], group["t0"], group["weight_decay"]
        return float(group["lr"]), *numbers, group["maximize"]

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {name: new_step(group, p) for name in self.counters}
        arrays.write(state["eta"].array, float(group["lr"]))
        arrays.write(state["mu"].array, 1.0)
        return state | {"ax": wrap(arrays.zeros_like(p.array))}

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        step, eta, mu = counted(state), state["eta"].item(), state["mu"].item()
        lambd, lr = group["lambd"], float(scalar(group["lr"]))
        p, g, average = real(p, g, state["ax"])
        g = directed(p, g, group)
        p.mul_(1 - lambd * eta).sub_(g, alpha=eta)
        if mu == 1:
            average.copy_(p)
        else:
            average.add_(p - average, alpha=mu)
        arrays.write(state["eta"].array, lr / (1 + lambd * lr * step) ** group["alpha"])
        arrays.write(state["mu"].array, 1 / max(1, step - group["t0"]))


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """One step of `ASGD` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        axs, mus, etas, state_steps: the states, a list for each, written in place.
        foreach, capturable, has_complex: kept for compatibility.
        maximize, differentiable, lambd, lr, t0, alpha, weight_decay: the options of `ASGD`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> asgd = dynograd.optim.asgd.asgd
    >>> asgd([w], [tensor([2.0])], [dynograd.zeros(1)], [tensor(1.0)], [tensor(0.1)], [tensor(0.0)],
    ...     lambd=1e-4, lr=0.1, t0=1e6, alpha=0.75, weight_decay=0.0,
    ... )
    >>> w
    tensor([0.8000])
    """
    states = {"step": state_steps, "ax": axs, "mu": mus, "eta": etas}
    options = {
        "lr": lr,
        "lambd": lambd,
        "alpha": alpha,
        "t0": t0,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    step_lists(ASGD, params, grads, states, options)
