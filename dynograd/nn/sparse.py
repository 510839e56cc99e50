"""Embeddings: rows of a table picked by integer."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.creation import empty
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter

__all__ = ["Embedding"]


class Embedding(Module):
    """A table of `num_embeddings` vectors, looked up by index.

    Args:
        padding_idx: this row starts at 0 and gets no gradient.
        max_norm: rows that are looked up are first shrunk, in place, to this norm.

    >>> dynograd.nn.Embedding(10, 3)(tensor([1, 2])).shape
    dynograd.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(f"Embedding: padding_idx must be within num_embeddings, got {padding_idx} for {num_embeddings} rows.")
            padding_idx %= num_embeddings
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            self.weight = Parameter(
                empty(num_embeddings, embedding_dim, device=device, dtype=dtype), requires_grad=not _freeze
            )
            self.reset_parameters()
        else:
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise ValueError(
                    f"Embedding: shape of weight {tuple(_weight.shape)} does not match num_embeddings and embedding_dim "
                    f"({num_embeddings}, {embedding_dim})."
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Normal numbers; the padding row is 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding around a given (rows, dims) tensor."""
        if embeddings.dim() != 2:
            raise ValueError(f"from_pretrained: Embeddings parameter is expected to be 2-dimensional, got {tuple(embeddings.shape)}.")
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )

    def forward(self, input: Any) -> Any:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"
