"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.kernels import kernel
from dynograd.optim.elementwise import real_array
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import Optimizer, ParamsT
from dynograd.optim.options import check_flags, check_range, check_single, scalar
from dynograd.optim.sparse_rows import add_rows, check_sparse_options
from dynograd.optim.together import Rule
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum when `momentum` is not 0.

    g = gradient + weight_decay * p; b = momentum * b + (1 - dampening) * g, where the first b is g; then p = p - lr * b, or
    p - lr * (g + momentum * b) with `nesterov`, or p - lr * g without momentum.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element.
        momentum, dampening, nesterov: as in the formula; Nesterov needs momentum and no dampening.
        weight_decay: the L2 penalty, added to the gradient.
        maximize: go up instead of down.
        foreach, fused: accepted; the step is fused anyway.
        differentiable: record the step, so that gradients flow through it (into `lr`, the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative lr, momentum or weight_decay, `nesterov` without momentum or with dampening.
        RuntimeError: `fused` with `foreach` or `differentiable`.
    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013, eq. 1-4; as in PyTorch the
        learning rate is outside the momentum.

    >>> w = tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    elementwise = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_single("SGD", "lr", lr, None, None)
        check_range("SGD", "learning rate", lr)
        check_range("SGD", "momentum value", momentum)
        check_range("SGD", "weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                f"SGD: Nesterov momentum requires a momentum and zero dampening, got momentum={momentum} and dampening={dampening}."
            )
        check_flags("SGD", fused, foreach, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for option in ("nesterov", "maximize", "differentiable", "fused"):
                group.setdefault(option, False)
            group.setdefault("foreach", None)
        for own in self.state.values():
            if "momentum_buffer" in own and own["momentum_buffer"] is None:
                del own["momentum_buffer"]

    def rule(self, group: dict[str, Any]) -> Rule:
        momentum = float(group["momentum"])
        numbers = float(group["lr"]), momentum, float(group["dampening"]), float(group["weight_decay"])
        names = ("momentum_buffer",) if momentum else ()
        return Rule("sgd_table_step", names, (*numbers, group["nesterov"], group["maximize"]))

    def complete_state(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> bool:
        if state.get("momentum_buffer") is not None:
            return False
        state["momentum_buffer"] = wrap(arrays.zeros_like(p.array))
        return True

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        momentum = float(group["momentum"])
        previous = state.get("momentum_buffer")
        first = bool(momentum) and previous is None
        if previous is not None and previous.is_sparse:
            state["momentum_buffer"] = previous.to_dense()
        if first:
            state["momentum_buffer"] = wrap(arrays.zeros_like(p.array))
        kernel("optimizers", "sgd_step", p.array)(
            real_array(p.array),
            real_array(g.array),
            real_array(state["momentum_buffer"].array) if momentum else None,
            float(group["lr"]),
            momentum,
            float(group["dampening"]),
            float(group["weight_decay"]),
            group["nesterov"],
            group["maximize"],
            first,
        )

    sparse_help = None

    def update_sparse(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Writes the rows that `g` has; with momentum the buffer is sparse too, as in PyTorch, and gathers the rows of all steps.

        Args:
            p: the parameter.
            g: its sparse gradient.
            state: what is kept for `p`; written in place.
            group: the options.
        Raises:
            RuntimeError: `weight_decay`, which changes all rows, or `differentiable`.

        >>> table = dynograd.nn.Embedding.from_pretrained(dynograd.ones(3, 2), freeze=False, sparse=True)
        >>> table(tensor([1])).sum().backward()
        >>> dynograd.optim.SGD(table.parameters(), lr=0.5).step()
        >>> table.weight[:, 0].detach()
        tensor([1.0000, 0.5000, 1.0000])
        """
        check_sparse_options("SGD", group)
        lr, momentum = float(group["lr"]), float(group["momentum"])
        if group["maximize"]:
            g = -g
        if momentum:
            g, previous = g.coalesce(), state.get("momentum_buffer")
            buffer = g if previous is None else previous * momentum + g * (1.0 - float(group["dampening"]))
            buffer = state["momentum_buffer"] = buffer.coalesce() if buffer.is_sparse else buffer
            g = buffer * momentum + g if group["nesterov"] else buffer
        if g.is_sparse:
            add_rows(p, g, -lr)
        else:
            p.sub_(g, alpha=lr)

    def update_recorded(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        momentum, weight_decay = group["momentum"], scalar(group["weight_decay"])
        if group["maximize"]:
            g = -g
        if isinstance(weight_decay, Tensor) or weight_decay:
            g = g + weight_decay * p.clone()  # p will be overwritten
        if momentum:
            previous = state.get("momentum_buffer")
            buffer = state["momentum_buffer"] = (
                g if previous is None else momentum * previous + (1 - group["dampening"]) * g
            )
            g = g + momentum * buffer if group["nesterov"] else buffer
        p.sub_(scalar(group["lr"]) * g)


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step of `SGD` on lists, in place: what the optimizer does, without its object.

    Args:
        params, d_p_list: parameters, and a gradient for each.
        momentum_buffer_list: the states, a list for each, written in place; None where there is none yet.
        has_sparse_grad, foreach, fused: kept for compatibility.
        grad_scale, found_inf: what gradients are divided by; nothing is done where `found_inf` is not 0.
        weight_decay, momentum, lr, dampening, nesterov, maximize: the options of `SGD`.
    Raises:
        ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> sgd = dynograd.optim.sgd.sgd
    >>> sgd([w], [tensor([2.0])], [None],
    ...     weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False,
    ... )
    >>> w
    tensor([0.8000])
    """
    states = {"momentum_buffer": momentum_buffer_list}
    options = {
        "lr": lr,
        "momentum": momentum,
        "dampening": dampening,
        "weight_decay": weight_decay,
        "nesterov": nesterov,
        "maximize": maximize,
    }
    step_lists(SGD, params, d_p_list, states, options, grad_scale, found_inf)
