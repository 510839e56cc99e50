"""Muon: momentum made orthogonal, for the matrices of hidden layers."""

from __future__ import annotations

from math import sqrt
from typing import Any

from dynograd import arrays
from dynograd.optim.elementwise import check_common
from dynograd.optim.optimizer import Optimizer, ParamsT
from dynograd.optim.options import check_range, scalar
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Muon"]

_ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """Steps along the nearest orthogonal matrix to the momentum, so that all directions of a matrix learn alike.

    b = momentum * b + (1 - momentum) * g; u = momentum * b + (1 - momentum) * g with `nesterov`, else b; u is divided by its norm and
    goes `ns_steps` times through u = a * u + (b * s + c * s @ s) @ u, s = u @ u.T, in bfloat16, which brings all its singular values
    near 1; then p = p * (1 - lr * weight_decay) - lr * adjustment * u.

    Args:
        params: matrices. Biases, norms, embeddings and the output layer go to another optimizer, such as AdamW.
        lr: the learning rate, a number or a tensor of one element.
        weight_decay: shrinks p by lr * weight_decay.
        momentum, nesterov: as above.
        ns_coefficients: (a, b, c) of the Newton-Schulz iteration.
        eps: the least norm that u is divided by.
        ns_steps: how many iterations; below 100.
        adjust_lr_fn: "original" (or None): sqrt(max(1, rows / columns)); "match_rms_adamw": 0.2 * sqrt(max(rows, columns)), with
            which AdamW's learning rate and decay may be kept.
    Raises:
        TypeError: `params` is one tensor, a module or something else that is no list of tensors.
        ValueError: no parameters, a negative number, a parameter that is no matrix, another adjust_lr_fn.
        RuntimeError: in a step: complex parameters.
    Source: Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024 (kellerjordan.github.io/posts/muon); Liu et
        al., Muon is Scalable for LLM Training, 2025 (arXiv:2502.16982), eq. 4.

    >>> w = tensor([[1.0, 0.0], [0.0, -2.0]], requires_grad=True)
    >>> optimizer = dynograd.optim.Muon([w], lr=0.1, weight_decay=0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> (w.detach().diagonal().abs() < tensor([1.0, 2.0])).tolist()
    [True, True]
    """

    elementwise = True
    counters = ()

    needs_whole_parameters = True

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_common("Muon", lr, weight_decay=weight_decay)
        check_range("Muon", "momentum", momentum)
        if adjust_lr_fn not in _ADJUSTMENTS:
            raise ValueError(
                f"Muon: Adjust learning rate function {adjust_lr_fn} is not supported. Expected 'original', 'match_rms_adamw' or None."
            )
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds matrices, with options of their own: `{"params": tensors, "lr": 0.1}`.

        Args:
            param_group: a dict with "params" and options.
        Raises:
            ValueError: a parameter that is no matrix, or what `Optimizer.add_param_group` refuses.

        >>> optimizer = dynograd.optim.Muon([dynograd.zeros(2, 2)])
        >>> optimizer.add_param_group({"params": [dynograd.zeros(3, 2)], "lr": 0.1})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.001, 0.1]
        """
        super().add_param_group(param_group)
        for p in param_group["params"]:
            if p.ndim != 2:
                self.param_groups.pop()
                raise ValueError(
                    f"Muon only supports 2D parameters, but one has shape {tuple(p.shape)}. Give biases, norms and other shapes to "
                    f"another optimizer, such as AdamW."
                )

    def init_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters. Optimize their real view.")
        return {"momentum_buffer": wrap(arrays.zeros_like(p.array))}

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, momentum = float(scalar(group["lr"])), group["momentum"]
        buffer = state["momentum_buffer"].lerp_(g, 1 - momentum)
        ahead = g.lerp(buffer, momentum) if group["nesterov"] else buffer
        step = _orthogonal(ahead, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape
        p.mul_(1 - lr * group["weight_decay"])
        p.sub_(step.to(p.dtype), alpha=lr * _adjustment(group["adjust_lr_fn"], rows, columns))


def _adjustment(name: str | None, rows: int, columns: int) -> float:
    if name == "match_rms_adamw":
        return 0.2 * sqrt(max(rows, columns))
    return sqrt(max(1, rows / max(columns, 1)))


def _orthogonal(x: Any, coefficients: Any, steps: int, eps: float) -> Any:
    """About U @ V.T of x = U @ S @ V.T: Newton-Schulz iterations in bfloat16, on the wide side."""
    if steps >= 100:
        raise ValueError(
            f"Muon: Number of steps must be less than 100 for computational efficiency, but ns_steps is {steps}."
        )
    if len(coefficients) != 3:
        raise ValueError(f"Muon: Coefficients must be a tuple of exactly 3 values, but got {coefficients!r}.")
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    y = (x.t() if tall else x).bfloat16()
    y = y / y.norm().clamp(min=eps)
    on_cpu = not y.is_cuda

    def rounded(z: Any) -> Any:
        """To bfloat16; a CPU goes on in float32, in which it multiplies bfloat16 matrices anyway."""
        return z.bfloat16().float() if on_cpu else z

    y = rounded(y)
    for _ in range(steps):
        gram = rounded(y @ y.t())
        y = rounded(y.addmm(rounded(gram.addmm(gram, gram, beta=b, alpha=c)), y, beta=a))
    return y.t() if tall else y
