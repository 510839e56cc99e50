"""AdamW: Adam with weight decay beside the gradient."""

from __future__ import annotations

from typing import Any

from dynograd.optim.adam import Adam
from dynograd.optim.optimizer import ParamsT
from dynograd.tensor.tensor import Tensor

__all__ = ["AdamW"]


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
