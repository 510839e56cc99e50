"""Rprop: steps whose size depends on the signs of the gradients alone."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.optim.elementwise import Elementwise, check_common, counted, directed, real
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.optim.states import new_step
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Rprop", "rprop"]


class Rprop(Elementwise):
    """Each element has a step size, which grows while its gradient keeps its sign and shrinks when the sign turns.

    s = clamp(s * (etas[1] where g * previous > 0, etas[0] where < 0, else 1), *step_sizes); where the sign turned g counts as 0;
    p = p - sign(g) * s. For whole batches: gradients of mini-batches turn their signs by chance.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the first step size, a number or a tensor of one element.
        etas: by how much step sizes shrink and grow.
        step_sizes: the smallest and largest step size.
        foreach, capturable: accepted; `capturable` keeps the counter on the parameter's device.
        maximize: go up instead of down.
        differentiable: record the step, so that gradients flow through it (into the old values; signs have none).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative lr, etas that are not 0 < etas[0] < 1 < etas[1].
        RuntimeError: in a step: a sparse gradient.
    Source: Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation Learning: The RPROP Algorithm, 1993; without
        its weight-backtracking, as in PyTorch.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.Rprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    table_step = "rprop_table_step"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common("Rprop", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Rprop: Invalid eta values: {etas[0]}, {etas[1]}. Expected 0 < etas[0] < 1 < etas[1].")
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("prev", "step_size")

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        sizes, lr = arrays.zeros_like(p.array), float(group["lr"])
        arrays.write(sizes, complex(lr, lr) if p.is_complex() else lr)
        return {"step": new_step(group, p), "prev": wrap(arrays.zeros_like(p.array)), "step_size": wrap(sizes)}

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return *group["etas"], *group["step_sizes"], group["maximize"]

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        counted(state)
        shrink, grow = group["etas"]
        p, g, previous, sizes = real(p, g, state["prev"], state["step_size"])
        g = directed(p, g, group)
        product = (g * previous).detach()
        turned = product < 0
        factor = product.sign().masked_fill_(product > 0, grow).masked_fill_(turned, shrink)
        sizes.mul_(factor.masked_fill_(factor == 0, 1)).clamp_(*group["step_sizes"])
        g = g.masked_fill(turned, 0)
        p.sub_(g.sign() * sizes)
        previous.copy_(g)


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """One step of `Rprop` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        prevs, step_sizes, state_steps: the states, a list for each, written in place.
        foreach, capturable, has_complex: kept for compatibility.
        maximize, differentiable, step_size_min, step_size_max, etaminus, etaplus: the options of `Rprop`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> rprop = dynograd.optim.rprop.rprop
    >>> rprop([w], [tensor([2.0])], [dynograd.zeros(1)], [tensor([0.1])], [tensor(0.0)],
    ...     step_size_min=1e-6, step_size_max=50, etaminus=0.5, etaplus=1.2,
    ... )
    >>> w
    tensor([0.9000])
    """
    states = {"step": state_steps, "prev": prevs, "step_size": step_sizes}
    options = {
        "maximize": maximize,
        "differentiable": differentiable,
        "etas": (etaminus, etaplus),
        "step_sizes": (step_size_min, step_size_max),
    }
    step_lists(Rprop, params, grads, states, options)
