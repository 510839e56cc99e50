"""SparseAdam: Adam of the rows that have a gradient."""

from __future__ import annotations

from typing import Any

from dynograd.optim.elementwise import check_common
from dynograd.optim.optimizer import Optimizer, ParamsT
from dynograd.tensor import Tensor

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients; for programs that name it, because gradients are dense here and it refuses these, as in PyTorch.

    `Embedding(sparse=True)` has dense gradients in dynograd: use Adam, whose moments also fade where a gradient is 0.

    Args:
        lr: the learning rate, a number or a tensor of one element, above 0.
        betas: how much of the means is kept at each step.
        eps: added to the root; above 0.
        maximize: go up instead of down.
    Source: Kingma and Ba, Adam: A Method for Stochastic Optimization, 2014 (arXiv 1412.6980), algorithm 1.

    >>> w = tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = dynograd.optim.SparseAdam([w])
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    Traceback (most recent call last):
    RuntimeError: SparseAdam does not support dense gradients, please consider Adam instead.
    """

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
        complex_ones = [where for where, p in numbered if p.is_complex()]
        if complex_ones:
            raise ValueError(
                f"Complex params at indices {complex_ones}: SparseAdam does not support complex parameters. Optimize their real view."
            )

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead.")
