"""Adafactor: Adam's second moment of a matrix kept as a row and a column."""

from __future__ import annotations

from typing import Any

from dynograd import arrays
from dynograd.base import dtypes
from dynograd.kernels import kernel
from dynograd.optim.elementwise import check_common, count_in_tensors, counted
from dynograd.optim.functional_steps import step_lists
from dynograd.optim.optimizer import Optimizer, ParamsT
from dynograd.optim.options import scalar
from dynograd.optim.states import new_step
from dynograd.optim.together import FEW_ELEMENTS, FEW_PARAMETERS
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Adafactor", "adafactor"]


class Adafactor(Optimizer):
    """Steps relative to the size of the parameter, with memory for a matrix's rows and columns instead of its elements.

    With b = 1 - t**beta2_decay: r = b * r + (1 - b) * (mean of g**2 over columns), c likewise over rows, and v = r * c / mean(r)
    over the last two dimensions; vectors keep v itself. u = g / sqrt(max(v, eps1**2)); u = u / max(1, rms(u) / d); then
    p = p * (1 - lr * weight_decay) - max(eps2, rms(p)) * min(lr, 1 / sqrt(t)) * u.

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the largest relative step, a number or a tensor of one element.
        beta2_decay: how fast the means grow longer; at most 0.
        eps: (eps1, eps2): the least root of v, by default the dtype's eps, and the least size of a parameter.
        d: the largest root mean square of u.
        weight_decay: shrinks p by lr * weight_decay.
        foreach: accepted; changes nothing.
        maximize: go up instead of down.
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative lr, weight_decay or eps, beta2_decay above 0, d below 1.
        RuntimeError: in a step: complex parameters.
    Source: Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018 (arXiv:1804.04235), algorithms
        4 and 5; eps1 is a floor and `lr` a bound of the relative step, as in PyTorch.

    >>> w = tensor([[1.0, -2.0]], requires_grad=True)
    >>> optimizer = dynograd.optim.Adafactor([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([[ 0.8419, -1.8419]], requires_grad=True)
    """

    needs_whole_parameters = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_common("Adafactor", lr, weight_decay=weight_decay)
        if not beta2_decay <= 0:
            raise ValueError(f"Adafactor: beta2_decay should be <= 0 but is: {beta2_decay}.")
        for number, value in enumerate(eps, 1):
            if value is not None and not value >= 0:
                raise ValueError(f"Adafactor: epsilon{number} should be >= 0 but is: {value}.")
        if not d >= 1:
            raise ValueError(f"Adafactor: Clipping threshold d should be >= 1 but is: {d}.")
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": eps,
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for p in group["params"]:
                count_in_tensors(self.state.get(p) or {}, self.counters, group, p)

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters. Optimize their real view.")
        state = {"step": new_step(group, p)}
        if p.ndim < 2:
            return state | {"variance": wrap(arrays.zeros_like(p.array))}
        *outer, rows, columns = p.shape
        for name, shape in (("row_var", (*outer, rows, 1)), ("col_var", (*outer, 1, columns))):
            state[name] = wrap(arrays.zeros(shape, p.dtype, arrays.device_of(p.array)))
        return state

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        step, lr = counted(state), float(scalar(group["lr"]))
        if p.numel() == 0:
            return
        fresh = step ** group["beta2_decay"]
        least, smallest = group["eps"]
        least = dtypes.finfo(p.dtype).eps if least is None else least
        numbers = fresh, float(least), float(smallest), lr, step, group["d"]
        if self._step_compiled(p, g, state, group, numbers):
            return
        size = max(smallest, _root_mean_square(p)) * min(lr, 1 / step**0.5)
        if group["weight_decay"]:
            p.mul_(1 - lr * group["weight_decay"])
        if group["maximize"]:
            g = -g
        if p.ndim < 2:
            variance = state["variance"].lerp_(g * g, fresh).clone()
        else:
            rows, columns = state["row_var"], state["col_var"]
            rows.lerp_(g.norm(2, dim=-1, keepdim=True).square_().div_(g.shape[-1]), fresh)
            columns.lerp_(g.norm(2, dim=-2, keepdim=True).square_().div_(g.shape[-2]), fresh)
            variance = (rows * columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=least))
        step_taken = variance.clamp_(min=least * least).rsqrt_().mul_(g)
        p.sub_(step_taken, alpha=size / max(1.0, _root_mean_square(step_taken) / group["d"]))

    def _step_compiled(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any], numbers: Any) -> bool:
        """The same in one compiled call, for plain arrays on a CPU; whether it was done."""
        operands = [
            p.array,
            g.array,
            *[state[name].array for name in ("variance", "row_var", "col_var") if name in state],
        ]
        if not all([type(operand) is arrays.ndarray for operand in operands]):
            return False
        if len(group["params"]) <= FEW_PARAMETERS and p.array.size < FEW_ELEMENTS:
            return False
        kept = 1 - numbers[3] * float(group["weight_decay"])
        return kernel("optimizers", "adafactor_step", operands[0])(*operands, *numbers, kept, group["maximize"])


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of `Adafactor` on lists, in place: what the optimizer does, without its object.

    Args:
        params, grads: parameters, and a gradient for each.
        row_vars, col_vars, variances, state_steps: the states, a list for each, written in place; None where a parameter has none.
        foreach, has_complex: kept for compatibility.
        grad_scale, found_inf: what gradients are divided by; nothing is done where `found_inf` is not 0.
        d, lr, beta2_decay, weight_decay, eps1, eps2, maximize: the options of `Adafactor`.
    Raises:
        RuntimeError: a step that is no tensor. ShapeError: lists of different lengths, or a gradient of another shape than its parameter.

    >>> w = tensor([1.0])
    >>> adafactor = dynograd.optim.adafactor.adafactor
    >>> adafactor([w], [tensor([2.0])], [None], [None], [dynograd.zeros(1)], [tensor(0.0)],
    ...     d=1.0, lr=0.1, beta2_decay=-0.8, weight_decay=0.0, eps1=1e-7, eps2=1e-3, maximize=False,
    ... )
    >>> w
    tensor([0.9000])
    """
    states: dict[str, list[Any]] = {
        "step": state_steps,
        "row_var": row_vars,
        "col_var": col_vars,
        "variance": variances,
    }
    options = {
        "lr": lr,
        "d": d,
        "beta2_decay": beta2_decay,
        "weight_decay": weight_decay,
        "maximize": maximize,
        "eps": (eps1, eps2),
    }
    step_lists(Adafactor, params, grads, states, options, grad_scale, found_inf)


def _root_mean_square(x: Any) -> float:
    return float(x.norm(2).item()) / x.numel() ** 0.5
