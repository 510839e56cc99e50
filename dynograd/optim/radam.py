"""RAdam: Adam that warms up by itself."""

from __future__ import annotations

from typing import Any

from dynograd.optim.elementwise import Elementwise, added, check_common, counted, directed, move, rate, real, shift
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.tensor.tensor import Tensor

__all__ = ["RAdam", "radam"]


class RAdam(Elementwise):
    """Adam whose steps are plain momentum until the mean of squares rests on enough of them, and grow to Adam's from there.

    With Adam's m and v (see Adam), R = 2 / (1 - beta2) - 1 and r = R - 2 * t * beta2**t / (1 - beta2**t), the number of squares
    that v stands for: p = p - lr * m / (1 - beta1**t), from r > 5 on times
    sqrt((r - 4) * (r - 2) * R / ((R - 4) * (R - 2) * r)) * sqrt(1 - beta2**t) / (sqrt(v) + eps).

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element.
        betas: how much of the means is kept at each step.
        eps: added to the root.
        weight_decay: the L2 penalty, added to the gradient.
        decoupled_weight_decay: shrink p by lr * weight_decay instead, as AdamW does.
        maximize: go up instead of down.
        foreach, capturable: accepted; `capturable` keeps the counter on the parameter's device.
        differentiable: record the step, so that gradients flow through it (into `lr`, the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative number, betas outside [0, 1).
        RuntimeError: in a step: a sparse gradient.
    Source: Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, 2019 (arXiv:1908.03265), algorithm 2; the
        rectification starts at r > 5 as in its authors' program.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.8000, -1.6000], requires_grad=True)
    """

    table_step = "radam_table_step"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("RAdam", lr, eps, weight_decay, betas)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        (beta1, beta2), numbers = group["betas"], (group["eps"], group["weight_decay"])
        return float(group["lr"]), beta1, beta2, *numbers, group["decoupled_weight_decay"], group["maximize"]

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (beta1, beta2), step = group["betas"], counted(state)
        lr, weight_decay = rate(group), group["weight_decay"]
        p, g, mean, square = real(p, g, state["exp_avg"], state["exp_avg_sq"])
        if weight_decay and group["decoupled_weight_decay"]:
            p.mul_(1 - lr * weight_decay)
        g = directed(p, g, group)
        mean.lerp_(g, 1 - beta1)
        square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        size, left = lr / (1 - beta1**step), beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * left / (1 - left)
        if length > 5:
            rectified = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            move(p, mean, added(square.sqrt(), group["eps"], group), size * (rectified * (1 - left)) ** 0.5)
        else:
            shift(p, mean, size)


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    eps: float,
) -> None:
    """One step of `RAdam` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        exp_avgs, exp_avg_sqs, state_steps: the states, a list for each, written in place.
        foreach, capturable, has_complex: kept for compatibility.
        decoupled_weight_decay, differentiable, maximize, beta1, beta2, lr, weight_decay, eps: the options of `RAdam`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> radam = dynograd.optim.radam.radam
    >>> radam([w], [tensor([2.0])], [dynograd.zeros(1)], [dynograd.zeros(1)], [tensor(0.0)],
    ...     beta1=0.9, beta2=0.999, lr=0.1, weight_decay=0.0, eps=1e-8,
    ... )
    >>> w
    tensor([0.8000])
    """
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    options = {
        "lr": lr,
        "eps": eps,
        "weight_decay": weight_decay,
        "decoupled_weight_decay": decoupled_weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
        "betas": (beta1, beta2),
    }
    step_lists(RAdam, params, grads, states, options)
