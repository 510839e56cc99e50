"""Adam and its variant AMSGrad."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.errors import StateDictError
from dynograd.kernels import kernel
from dynograd.optim.elementwise import real_array
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import Optimizer, ParamsT
from dynograd.optim.options import check_flags, check_pair, check_range, check_single, scalar
from dynograd.optim.states import new_step
from dynograd.optim.together import Rule
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Adam", "adam"]


_NAMES = ("step", "exp_avg", "exp_avg_sq")
_AMSGRAD_NAMES = (*_NAMES, "max_exp_avg_sq")


class Adam(Optimizer):
    """Steps of about `lr` in each element, by running means of the gradient and of its square.

    g = gradient + weight_decay * p; m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g**2; then at step t
    p = p - lr * m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + eps).

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element.
        betas: how much of the means is kept at each step.
        eps: added to the root.
        weight_decay: the L2 penalty, added to the gradient.
        amsgrad: divide by the root of the largest v so far.
        decoupled_weight_decay: shrink p by lr * weight_decay instead (see AdamW).
        maximize: go up instead of down.
        foreach: accepted; the step is fused anyway.
        fused, capturable: on a GPU steps are counted there, so that a step can be skipped by a GradScaler, or captured in a graph,
            without the host.
        differentiable: record the step, so that gradients flow through it (into `lr`, the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative number, betas outside [0, 1).
        RuntimeError: `fused` with `foreach` or `differentiable`; in a step: a sparse gradient.
    Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014 (arXiv:1412.6980), algorithm 1; Reddi et al., On the
        Convergence of Adam and Beyond, 2018 (arXiv:1904.09237), algorithm 2, with Adam's bias correction as in PyTorch.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    elementwise = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        who = type(self).__name__
        check_pair(who, "betas", betas)
        for what, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            check_single(who, what, value, foreach, capturable)
        check_range(who, "learning rate", lr)
        check_range(who, "epsilon value", eps)
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError(
                f"{who}: betas must be either both floats or both Tensors, got {betas[0]!r} and {betas[1]!r}."
            )
        check_range(who, "beta parameter at index 0", betas[0], below=1)
        check_range(who, "beta parameter at index 1", betas[1], below=1)
        check_range(who, "weight_decay value", weight_decay)
        check_flags(who, fused, foreach, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": (scalar(betas[0]), scalar(betas[1])),
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for option in ("amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay"):
                group.setdefault(option, False)
            for option in ("foreach", "fused"):
                group.setdefault(option, None)
            for p in group["params"]:
                own = self.state.get(p)
                if own and not isinstance(own["step"], Tensor):
                    step = new_step(group, p)
                    arrays.write(step.array, float(own["step"]))
                    own["step"] = step

    sparse_help = "Please consider SparseAdam instead, or build the layer with sparse=False."

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = _AMSGRAD_NAMES if group["amsgrad"] else _NAMES
        return {"step": new_step(group, p)} | {name: wrap(arrays.zeros_like(p.array)) for name in names[1:]}

    def rule(self, group: dict[str, Any]) -> Rule:
        lr, (beta1, beta2) = group["lr"], group["betas"]
        names = _AMSGRAD_NAMES if group["amsgrad"] else _NAMES
        numbers = float(lr), float(beta1), float(beta2), float(group["eps"]), float(group["weight_decay"])
        return Rule("adam_table_step", names, (*numbers, group["decoupled_weight_decay"], group["maximize"]))

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        count = state["step"].array
        step = count.item() + 1
        arrays.write(count, step)
        highest = _highest(state) if group["amsgrad"] else None
        used = [p, g, state["exp_avg"], state["exp_avg_sq"], highest]
        kernel("optimizers", "adam_step", p.array)(
            *[None if tensor is None else real_array(tensor.array) for tensor in used],
            step,
            float(group["lr"]),
            float(beta1),
            float(beta2),
            float(group["eps"]),
            float(group["weight_decay"]),
            group["decoupled_weight_decay"],
            group["maximize"],
        )

    def update_recorded(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        lr, weight_decay = scalar(group["lr"]), scalar(group["weight_decay"])
        if p.is_complex():
            raise RuntimeError(
                f"{type(self).__name__}: differentiable=True does not take complex parameters. Optimize their real view."
            )
        step = state["step"].array.item() + 1
        arrays.write(state["step"].array, step)
        if group["maximize"]:
            g = -g
        if isinstance(weight_decay, Tensor) or weight_decay:
            if group["decoupled_weight_decay"]:
                p.mul_(1 - lr * weight_decay)
            else:
                g = g + weight_decay * p.clone()  # p will be overwritten
        mean = state["exp_avg"] = state["exp_avg"] + (1 - beta1) * (g - state["exp_avg"])
        square = state["exp_avg_sq"] = beta2 * state["exp_avg_sq"] + (1 - beta2) * (g * g)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = _highest(state).maximum(square)
        root = square.sqrt() / (1 - beta2**step) ** 0.5 + group["eps"]
        p.sub_(lr / (1 - beta1**step) * mean / root)


def adam(
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
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adam` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps: the states, a list for each, written in place;
            empty where an option does not ask for it.
        foreach, capturable, fused, has_complex: kept for compatibility.
        grad_scale, found_inf: what gradients are divided by; nothing is done where `found_inf` is not 0.
        differentiable, decoupled_weight_decay, amsgrad, beta1, beta2, lr, weight_decay, eps, maximize: the options of `Adam`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> adam = dynograd.optim.adam.adam
    >>> adam([w], [tensor([2.0])], [dynograd.zeros(1)], [dynograd.zeros(1)], [], [tensor(0.0)],
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
        "decoupled_weight_decay": decoupled_weight_decay,
        "betas": (beta1, beta2),
    }
    step_lists(Adam, params, grads, states, options, grad_scale, found_inf)


def _highest(state: dict[str, Any]) -> Tensor:
    highest = state.get("max_exp_avg_sq")
    if highest is None:
        raise StateDictError(
            "Adam: amsgrad=True was set, but the state has no max_exp_avg_sq: it was made or saved without amsgrad. "
            "Set amsgrad before the first step, or drop the state (optimizer.state.clear())."
        )
    return highest
