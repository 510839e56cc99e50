"""Adagrad: rates that shrink where gradients have been large."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.optim.elementwise import Elementwise, added, check_common, counted, directed, move, rate, real
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import ParamsT
from dynograd.optim.options import check_flags, check_range
from dynograd.optim.sparse_rows import check_sparse_options, rows, set_rows, step_compiled
from dynograd.optim.states import new_step
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Adagrad", "adagrad"]


class Adagrad(Elementwise):
    """Steps divided, element by element, by the root of the sum of all squared gradients so far.

    g = gradient + weight_decay * p; s = s + g**2; then at step t p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps).

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element.
        lr_decay: how fast the learning rate falls.
        weight_decay: the L2 penalty, added to the gradient.
        initial_accumulator_value: s before the first step. States are made with the optimizer, not at the first step.
        eps: added to the root.
        foreach, fused: accepted; `fused` keeps the counter on the parameter's device.
        maximize: go up instead of down.
        differentiable: record the step, so that gradients flow through it (into `lr`, the gradients and the old values).
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative number.
        RuntimeError: `fused` with `foreach` or `differentiable`.
    Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, 2011 (JMLR 12),
        figure 1, diagonal form.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([ 0.9000, -1.9000], requires_grad=True)
    """

    table_step = "adagrad_table_step"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_common("Adagrad", lr, eps, weight_decay)
        check_range("Adagrad", "lr_decay value", lr_decay)
        check_range("Adagrad", "initial_accumulator_value value", initial_accumulator_value)
        check_flags("Adagrad", fused, foreach, differentiable)
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self.init_state(p, group)

    def share_memory(self) -> None:
        """Moves the sums into memory that forked processes share.

        >>> optimizer = dynograd.optim.Adagrad([dynograd.zeros(2)])
        >>> optimizer.share_memory()
        """
        for state in self.state.values():
            state["sum"].share_memory_()

    def names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        total, start = arrays.zeros_like(p.array), self.defaults["initial_accumulator_value"]
        if start:
            arrays.write(total, complex(start, start) if p.is_complex() else start)
        return {"step": new_step(group, p), "sum": wrap(total)}

    def numbers(self, group: dict[str, Any]) -> tuple[Any, ...]:
        return float(group["lr"]), group["lr_decay"], group["eps"], group["weight_decay"], group["maximize"]

    sparse_help = None

    def update_sparse(self, p: Tensor, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        check_sparse_options("Adagrad", group)
        size = float(rate(group)) / (1 + (counted(state) - 1) * group["lr_decay"])
        g, sign = g.coalesce(), -1.0 if group["maximize"] else 1.0
        if step_compiled("adagrad_rows", [p, state["sum"]], g, sign, size, group["eps"]):
            return
        entries = -g._values() if group["maximize"] else g._values()
        total = rows(state["sum"], g).addcmul_(entries, entries)
        set_rows(state["sum"], g, total)
        set_rows(p, g, rows(p, g).addcdiv_(entries, total.sqrt_().add_(group["eps"]), value=-size))

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        size = rate(group) / (1 + (counted(state) - 1) * group["lr_decay"])
        p, g, total = real(p, g, state["sum"])
        g = directed(p, g, group)
        total.addcmul_(g, g)
        move(p, g, added(total.sqrt(), group["eps"], group), size)


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """One step of `Adagrad` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        state_sums, state_steps: the states, a list for each, written in place.
        fused, has_sparse_grad, foreach, has_complex: kept for compatibility.
        grad_scale, found_inf: what gradients are divided by; nothing is done where `found_inf` is not 0.
        differentiable, lr, weight_decay, lr_decay, eps, maximize: the options of `Adagrad`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> adagrad = dynograd.optim.adagrad.adagrad
    >>> adagrad([w], [tensor([2.0])], [dynograd.zeros(1)], [tensor(0.0)],
    ...     lr=0.1, weight_decay=0.0, lr_decay=0.0, eps=1e-10, maximize=False,
    ... )
    >>> w
    tensor([0.9000])
    """
    states = {"step": state_steps, "sum": state_sums}
    options = {
        "lr": lr,
        "lr_decay": lr_decay,
        "eps": eps,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "differentiable": differentiable,
    }
    step_lists(Adagrad, params, grads, states, options, grad_scale, found_inf)
