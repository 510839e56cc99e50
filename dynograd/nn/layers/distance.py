"""Distances and similarities of vectors as modules."""

from __future__ import annotations

from dynograd.nn import functional as F
from dynograd.nn.module import Module
from dynograd.tensor.tensor import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """The cosine of the angle between `x1` and `x2` along `dim`: 1 for the same direction, 0 for orthogonal, -1 for opposite.

    Args:
        dim: along which dim the vectors lie.
        eps: the least norm that is divided by.
    Shape: x1 and x2 (*, D, *), which broadcast; gives their shape without `dim`.

    >>> dynograd.nn.CosineSimilarity(dim=0)(tensor([1.0, 0.0]), tensor([2.0, 0.0]))
    tensor(1.)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` along the last dim.

    Args:
        p: of the norm; may be negative or infinite.
        eps: keeps the gradient finite where both are equal.
        keepdim: keep the last dim, of size 1.
    Shape: x1 and x2 (N, D) or (D,), which broadcast; gives (N,) or (); with `keepdim`, (N, 1) or (1,).

    >>> dynograd.nn.PairwiseDistance()(tensor([[0.0, 0.0]]), tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
