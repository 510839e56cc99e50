"""`gumbel_softmax`: samples of a categorical distribution that gradients flow through."""

from __future__ import annotations

from dynograd.ops.norm.softmaxes import softmax
from dynograd.tensor.creation import empty_like, zeros_like
from dynograd.tensor.tensor import Tensor

__all__ = ["gumbel_softmax"]


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((logits + Gumbel noise) / tau): near a one-hot sample for small `tau`.

    Args:
        logits: of any shape; log-probabilities of the classes along `dim`, up to a constant.
        tau: the temperature, above 0.
        hard: give the one-hot vector itself, with the gradient of the soft one.
        eps: ignored, as in PyTorch.
        dim: along which dim the classes lie.
    Returns:
        of the shape of `logits`; sums to 1 along `dim`.
    Source: Jang et al., Categorical reparameterization with Gumbel-softmax, 2016 (arXiv:1611.01144).

    >>> y = dynograd.nn.functional.gumbel_softmax(tensor([0.0, 50.0]), hard=True)
    >>> y.argmax().item()
    1
    """
    noise = -empty_like(logits.detach()).exponential_().log()
    soft = softmax((logits + noise) / tau, dim=dim)
    if not hard:
        return soft
    chosen = zeros_like(soft.detach()).scatter_(dim, soft.detach().argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft
