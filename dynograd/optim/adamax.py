"""Adamax: Adam by the largest gradients."""

from __future__ import annotations

from typing import Any

from dynograd.optim.elementwise import Elementwise, check_common, counted, directed, move, rate, real
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.tensor.tensor import Tensor

__all__ = ["Adamax", "adamax"]


class Adamax(Elementwise):
    """Adam that divides by a fading maximum of the gradients' sizes instead of the root of their mean square.

    g = gradient + weight_decay * p; m = beta1 * m + (1 - beta1) * g; u = max(beta2 * u, |g| + eps); then at step t
    p = p - lr / (1 - beta1**t) * m / u.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element.
        betas: how much of the mean and of the maximum is kept at each step.
        eps: added to the sizes, so that nothing is divided by 0.
        weight_decay: the L2 penalty, added to the gradient.
        maximize: go up instead of down.
        foreach, capturable: accepted; `capturable` keeps the counter on the parameter's device.
        differentiable: record the step, so that gradients flow through it (into `lr`, the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative number, betas outside [0, 1).
        RuntimeError: in a step: a sparse gradient.
    Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014 (arXiv:1412.6980), algorithm 2, with PyTorch's eps.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    table_step = "adamax_table_step"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_common("Adamax", lr, eps, weight_decay, betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        (beta1, beta2), numbers = group["betas"], (group["eps"], group["weight_decay"])
        return float(group["lr"]), beta1, beta2, *numbers, group["maximize"]

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (beta1, beta2), step = group["betas"], counted(state)
        p, g, mean, largest = real(p, g, state["exp_avg"], state["exp_inf"])
        g = directed(p, g, group)
        mean.lerp_(g, 1 - beta1)
        largest.mul_(beta2)
        largest.copy_((g.abs() + group["eps"]).maximum(largest.clone() if group["differentiable"] else largest))
        move(p, mean, largest, rate(group) / (1 - beta1**step))


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
) -> None:
    """One step of `Adamax` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        exp_avgs, exp_infs, state_steps: the states, a list for each, written in place.
        foreach, capturable, has_complex: kept for compatibility.
        maximize, differentiable, eps, beta1, beta2, lr, weight_decay: the options of `Adamax`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> adamax = dynograd.optim.adamax.adamax
    >>> adamax([w], [tensor([2.0])], [dynograd.zeros(1)], [dynograd.zeros(1)], [tensor(0.0)],
    ...     eps=1e-8, beta1=0.9, beta2=0.999, lr=0.1, weight_decay=0.0,
    ... )
    >>> w
    tensor([0.9000])
    """
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}
    options = {
        "lr": lr,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
        "betas": (beta1, beta2),
    }
    step_lists(Adamax, params, grads, states, options)
