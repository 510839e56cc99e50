"""Adadelta: steps of the size that steps had, without a rate to choose."""

from __future__ import annotations

from typing import Any

from dynograd.optim.elementwise import Elementwise, check_common, counted, directed, rate, real, shift
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.tensor.tensor import Tensor

__all__ = ["Adadelta", "adadelta"]


class Adadelta(Elementwise):
    """Gradients scaled by the running root mean square of past steps over that of past gradients.

    g = gradient + weight_decay * p; v = rho * v + (1 - rho) * g**2; d = sqrt(u + eps) / sqrt(v + eps) * g;
    u = rho * u + (1 - rho) * d**2; p = p - lr * d.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: scales the step, a number or a tensor of one element.
        rho: how much of the means is kept at each step.
        eps: added under both roots; it sets the size of the first steps.
        weight_decay: the L2 penalty, added to the gradient.
        foreach, capturable: accepted; `capturable` keeps the counter on the parameter's device.
        maximize: go up instead of down.
        differentiable: record the step, so that gradients flow through it (into `lr`, the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative lr, eps or weight_decay, rho outside [0, 1].
    Source: Zeiler, ADADELTA: An Adaptive Learning Rate Method, 2012 (arXiv:1212.5701), algorithm 1.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.Adadelta([w], lr=10)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9684, -1.9684], requires_grad=True)
    """

    table_step = "adadelta_table_step"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("Adadelta", lr, eps, weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Adadelta: Invalid rho value: {rho}. Expected a number in [0, 1].")
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("square_avg", "acc_delta")

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return float(group["lr"]), group["rho"], group["eps"], group["weight_decay"], group["maximize"]

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        counted(state)
        rho, eps, lr = group["rho"], group["eps"], rate(group)
        p, g, squares, steps = real(p, g, state["square_avg"], state["acc_delta"])
        g = directed(p, g, group)
        squares.mul_(rho).addcmul_(g, g, value=1 - rho)
        delta = (steps + eps).sqrt() / (squares + eps).sqrt() * g
        steps.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        shift(p, delta, lr)


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """One step of `Adadelta` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        square_avgs, acc_deltas, state_steps: the states, a list for each, written in place.
        capturable, foreach, has_complex: kept for compatibility.
        differentiable, lr, rho, eps, weight_decay, maximize: the options of `Adadelta`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> adadelta = dynograd.optim.adadelta.adadelta
    >>> adadelta([w], [tensor([2.0])], [dynograd.zeros(1)], [dynograd.zeros(1)], [tensor(0.0)],
    ...     lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, maximize=False,
    ... )
    >>> w
    tensor([0.9968])
    """
    states = {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}
    options = {
        "lr": lr,
        "rho": rho,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    step_lists(Adadelta, params, grads, states, options)
