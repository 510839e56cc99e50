"""AdamW: Adam with weight decay beside the gradient."""

from __future__ import annotations

from typing import Any

from dynograd.optim.adam import Adam
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.tensor.tensor import Tensor

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter by lr * weight_decay and does not enter the running means.

    p = p * (1 - lr * weight_decay), then Adam's step with the plain gradient.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element.
        betas: how much of the means is kept at each step.
        eps: added to the root.
        weight_decay: p shrinks by lr * weight_decay.
        amsgrad: divide by the root of the largest v so far.
        maximize: go up instead of down.
        foreach, fused, capturable, differentiable: as for `Adam`.
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative number, betas outside [0, 1).
        RuntimeError: `fused` with `foreach` or `differentiable`; in a step: a sparse gradient.
    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2017 (arXiv:1711.05101), algorithm 2, with the decay
        scaled by `lr` as in PyTorch.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.AdamW([w], lr=0.1, weight_decay=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.8500, -1.8000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def adamw(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `AdamW` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps: the states, a list for each, written in place;
            empty where an option does not ask for it.
        foreach, capturable, fused, has_complex: kept for compatibility.
        grad_scale, found_inf: what gradients are divided by; nothing is done where `found_inf` is not 0.
        differentiable, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize: the options of `AdamW`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> adamw = dynograd.optim.adamw.adamw
    >>> adamw([w], [tensor([2.0])], [dynograd.zeros(1)], [dynograd.zeros(1)], [], [tensor(0.0)],
    ...     amsgrad=False, beta1=0.9, beta2=0.999, lr=0.1, weight_decay=0.0, eps=1e-8, maximize=False,
    ... )
    >>> w
    tensor([0.9000])
    """
    states = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs, "max_exp_avg_sq": max_exp_avg_sqs}
    options = {
        "lr": lr,
        "eps": eps,
        "weight_decay": weight_decay,
        "amsgrad": amsgrad,
        "maximize": maximize,
        "differentiable": differentiable,
        "betas": (beta1, beta2),
        "decoupled_weight_decay": True,
    }
    step_lists(AdamW, params, grads, states, options, grad_scale, found_inf)
