"""RMSprop: gradients divided by their running root mean square."""

from __future__ import annotations

from typing import Any

from dynograd.optim.elementwise import Elementwise, added, check_common, counted, directed, move, rate, real, shift
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.optim.options import check_range
from dynograd.tensor.tensor import Tensor

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(Elementwise):
    """Steps of the gradient divided by the root of the running mean of its square.

    g = gradient + weight_decay * p; v = alpha * v + (1 - alpha) * g**2; p = p - lr * g / (sqrt(v) + eps). `centered` divides by
    the root of the variance, v - a**2 with a = alpha * a + (1 - alpha) * g; with `momentum`, b = momentum * b + g / (root + eps)
    and p = p - lr * b.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element.
        alpha: how much of the means is kept at each step.
        eps: added to the root.
        weight_decay: the L2 penalty, added to the gradient.
        momentum, centered: as above.
        foreach, capturable: accepted; `capturable` keeps the counter on the parameter's device.
        maximize: go up instead of down.
        differentiable: record the step, so that gradients flow through it (into `lr`, the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative number.
        RuntimeError: in a step: a sparse gradient.
    Source: Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012; centered: Graves, Generating Sequences
        With Recurrent Neural Networks, 2013 (arXiv:1308.0850), eq. 38-45.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.RMSprop([w], lr=0.01)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    table_step = "rmsprop_table_step"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("RMSprop", lr, eps, weight_decay)
        check_range("RMSprop", "momentum value", momentum)
        check_range("RMSprop", "alpha value", alpha)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *momentum, *(("grad_avg",) if group["centered"] else ()))

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        numbers = float(group["lr"]), group["alpha"], group["eps"], group["momentum"]
        return *numbers, group["centered"], group["weight_decay"], group["maximize"]

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        counted(state)
        alpha, momentum, lr = group["alpha"], group["momentum"], rate(group)
        p, g, square = real(p, g, state["square_avg"])
        g = directed(p, g, group)
        square.mul_(alpha).addcmul_(g, g, value=1 - alpha)
        variance = square
        if group["centered"]:
            (mean,) = real(state["grad_avg"])
            mean.lerp_(g, 1 - alpha)
            variance = square.addcmul(mean, mean, value=-1)
        root = added(variance.sqrt(), group["eps"], group)
        if momentum > 0:
            (buffer,) = real(state["momentum_buffer"])
            buffer.mul_(momentum).addcdiv_(g, root)
            shift(p, buffer, lr)
        else:
            move(p, g, root, lr)


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """One step of `RMSprop` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        square_avgs, grad_avgs, momentum_buffer_list, state_steps: the states, a list for each, written in place;
            empty where an option does not ask for it.
        foreach, capturable, has_complex: kept for compatibility.
        maximize, differentiable, lr, alpha, eps, weight_decay, momentum, centered: the options of `RMSprop`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> rmsprop = dynograd.optim.rmsprop.rmsprop
    >>> rmsprop([w], [tensor([2.0])], [dynograd.zeros(1)], [], [], [tensor(0.0)],
    ...     lr=0.05, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False,
    ... )
    >>> w
    tensor([0.5000])
    """
    states = {
        "step": state_steps,
        "square_avg": square_avgs,
        "grad_avg": grad_avgs,
        "momentum_buffer": momentum_buffer_list,
    }
    options = {
        "lr": lr,
        "alpha": alpha,
        "eps": eps,
        "weight_decay": weight_decay,
        "momentum": momentum,
        "centered": centered,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    step_lists(RMSprop, params, grads, states, options)
