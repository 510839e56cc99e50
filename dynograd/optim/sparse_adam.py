"""SparseAdam: Adam of the rows that have a gradient."""

from __future__ import annotations

from math import sqrt
from typing import Any

from dynograd import arrays
from dynograd.optim.elementwise import check_common
from dynograd.optim.optimizer import Optimizer, ParamsT
from dynograd.optim.sparse_rows import rows, set_rows, step_compiled
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam of the rows that a sparse gradient has entries for; the moments of the others stay as they are.

    For the tables of `Embedding(sparse=True)` and `EmbeddingBag(sparse=True)`: a step costs what the rows of the batch cost. With m
    and v the moments of a row and t the steps so far, m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * g**2; then
    p = p - lr * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + eps).

    Args:
        params: tensors, (name, tensor) pairs, or dicts `{"params": ..., option: value}`, one for each parameter group.
        lr: the learning rate, a number or a tensor of one element, above 0.
        betas: how much of the means is kept at each step.
        eps: added to the root; above 0.
        maximize: go up instead of down.
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a number that is not above 0, betas outside [0, 1), sparse or complex parameters.
        RuntimeError: in a step: a dense gradient.
    Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014 (arXiv:1412.6980), algorithm 1.

    >>> table = dynograd.nn.Embedding(3, 2, sparse=True)
    >>> optimizer = dynograd.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(tensor([1, 1])).sum().backward()
    >>> optimizer.step()
    >>> table.weight.detach() - before
    tensor([[ 0.0000,  0.0000],
            [-0.1000, -0.1000],
            [ 0.0000,  0.0000]])
    """

    elementwise = True
    sparse_help = None

    needs_whole_parameters = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_common("SparseAdam", lr, eps, betas=betas)
        for what, value in (("learning rate", lr), ("epsilon value", eps)):
            if not value > 0:
                raise ValueError(f"SparseAdam: Invalid {what}: {value}. Expected a number above 0.")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        numbered = [
            ([number, place], p)
            for number, group in enumerate(self.param_groups)
            for place, p in enumerate(group["params"])
        ]
        sparse_ones = [where for where, p in numbered if p.is_sparse]
        if sparse_ones:
            raise ValueError(
                f"Sparse params at indices {sparse_ones}: SparseAdam requires dense parameter tensors; the gradients are sparse. Use "
                f"x.to_dense()."
            )
        complex_ones = [where for where, p in numbered if p.is_complex()]
        if complex_ones:
            raise ValueError(
                f"Complex params at indices {complex_ones}: SparseAdam does not support complex parameters. Optimize their real view."
            )

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": 0, "exp_avg": wrap(arrays.zeros_like(p.array)), "exp_avg_sq": wrap(arrays.zeros_like(p.array))}

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise RuntimeError(
            f"SparseAdam does not support dense gradients, please consider Adam instead (a parameter of shape {tuple(p.shape)} has one). "
            f"Embedding(..., sparse=True) makes sparse ones."
        )

    def update_sparse(self, p: Tensor, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        (beta1, beta2), g = group["betas"], g.coalesce()
        state["step"] += 1
        step = int(state["step"])
        if not g._nnz():
            return
        size = float(group["lr"]) * sqrt(1 - beta2**step) / (1 - beta1**step)
        tensors, sign = [p, state["exp_avg"], state["exp_avg_sq"]], -1.0 if group["maximize"] else 1.0
        if step_compiled("sparse_adam_rows", tensors, g, sign, size, group["eps"], 1 - beta1, beta2, 1 - beta2):
            return
        entries = -g._values() if group["maximize"] else g._values()
        mean = rows(state["exp_avg"], g).lerp_(entries, 1 - beta1)
        square = rows(state["exp_avg_sq"], g).mul_(beta2).addcmul_(entries, entries, value=1 - beta2)
        set_rows(state["exp_avg"], g, mean)
        set_rows(state["exp_avg_sq"], g, square)
        set_rows(p, g, rows(p, g).addcdiv_(mean, square.sqrt_().add_(group["eps"]), value=-size))
