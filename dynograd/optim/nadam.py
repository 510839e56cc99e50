"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.optim.elementwise import Elementwise, added, check_common, counted, directed, move, rate, real
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.optim.options import check_range
from dynograd.optim.states import new_step
from dynograd.tensor.tensor import Tensor

__all__ = ["NAdam", "nadam"]


class NAdam(Elementwise):
    """Adam that looks ahead along its momentum.

    With Adam's m and v (see Adam) and u_t = beta1 * (1 - 0.96**(t * momentum_decay) / 2), at step t
    p = p - lr * ((1 - u_t) / (1 - u_1 ... u_t) * g + u_{t+1} / (1 - u_1 ... u_{t+1}) * m) / (sqrt(v / (1 - beta2**t)) + eps).

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element.
        betas: how much of the means is kept at each step.
        eps: added to the root.
        weight_decay: the L2 penalty, added to the gradient.
        momentum_decay: how fast the momentum grows to beta1.
        decoupled_weight_decay: shrink p by lr * weight_decay instead, as AdamW does.
        maximize: go up instead of down.
        foreach, capturable: accepted; `capturable` keeps the counters on the parameter's device.
        differentiable: record the step, so that gradients flow through it (into `lr`, the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative number, betas outside [0, 1).
        RuntimeError: in a step: a sparse gradient.
    Source: Dozat, Incorporating Nesterov Momentum into Adam, 2016 (openreview OM0jvwB8jIp57ZJjtNEZ), algorithm 2, with the
        momentum schedule of Sutskever et al. that it names.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.8944, -1.8944], requires_grad=True)
    """

    counters = ("step", "mu_product")
    table_step = "nadam_table_step"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("NAdam", lr, eps, weight_decay, betas)
        check_range("NAdam", "momentum_decay value", momentum_decay)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        (beta1, beta2), numbers = group["betas"], (group["eps"], group["weight_decay"], group["momentum_decay"])
        return float(group["lr"]), beta1, beta2, *numbers, group["decoupled_weight_decay"], group["maximize"]

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = super().init_state(p, group)
        product = new_step(group, p)
        arrays.write(product.array, 1.0)
        return {"step": state.pop("step"), "mu_product": product} | state

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (beta1, beta2), decay, step = group["betas"], group["momentum_decay"], counted(state)
        lr, weight_decay = rate(group), group["weight_decay"]
        p, g, mean, square = real(p, g, state["exp_avg"], state["exp_avg_sq"])
        if weight_decay and group["decoupled_weight_decay"]:
            p.mul_(1 - lr * weight_decay)
        g = directed(p, g, group)
        now, ahead = (beta1 * (1 - 0.5 * 0.96 ** (t * decay)) for t in (step, step + 1))
        product = state["mu_product"].mul_(now)
        product = product.clone() if group["differentiable"] else float(product.item())
        mean.lerp_(g, 1 - beta1)
        square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        scale = (1 - beta2**step) ** 0.5
        root = added(square.sqrt(), group["eps"] * scale, group)  # times `scale`
        move(p, g, root, lr * scale * (1 - now) / (1 - product))
        move(p, mean, root, lr * scale * ahead / (1 - product * ahead))


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """One step of `NAdam` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        exp_avgs, exp_avg_sqs, mu_products, state_steps: the states, a list for each, written in place.
        foreach, capturable, has_complex: kept for compatibility.
        decoupled_weight_decay, differentiable, maximize, beta1, beta2, lr, weight_decay, momentum_decay, eps: the options of `NAdam`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> nadam = dynograd.optim.nadam.nadam
    >>> nadam([w], [tensor([2.0])], [dynograd.zeros(1)], [dynograd.zeros(1)], [tensor(1.0)], [tensor(0.0)],
    ...     beta1=0.9, beta2=0.999, lr=0.1, weight_decay=0.0, momentum_decay=4e-3, eps=1e-8,
    ... )
    >>> w
    tensor([0.8944])
    """
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "mu_product": mu_products}
    options = {
        "lr": lr,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum_decay": momentum_decay,
        "decoupled_weight_decay": decoupled_weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
        "betas": (beta1, beta2),
    }
    step_lists(NAdam, params, grads, states, options)
