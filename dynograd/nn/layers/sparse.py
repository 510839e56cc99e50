"""Embeddings: rows of a table picked by integer, one by one or summed in bags."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.modes import no_grad
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.base.signatures import without_private
from dynograd.interpreter.recorded_methods import recorded_as
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.checks import check_sizes
from dynograd.nn.module import Module
from dynograd.nn.parameter import Parameter
from dynograd.tensor.creation import empty
from dynograd.tensor.tensor import Tensor

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """A table of `num_embeddings` vectors, looked up by index. `weight` (num_embeddings, embedding_dim) starts with normal numbers.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of a row.
        padding_idx: this row starts at 0 and gets no gradient.
        max_norm: rows that are looked up are first shrunk, in place, to this norm.
        norm_type: p of that norm.
        scale_grad_by_freq: divide the gradient of a row by how often the call looked it up.
        sparse: the gradient of `weight` is a sparse tensor of the rows that were looked up.
        device, dtype: of `weight`.
    Shape: input (*) of integers from 0 to num_embeddings - 1, also ragged; gives (*, embedding_dim).
    Raises:
        TypeError, ShapeError: a size that is no integer, or negative.
        ValueError: padding_idx outside the table.
        IndexRangeError: in a call: an index outside the table.

    >>> dynograd.nn.Embedding(10, 3)(tensor([1, 2])).shape
    dynograd.Size([2, 3])
    """

    @without_private
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
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        check_sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        padding_idx = _within("Embedding", padding_idx, num_embeddings)
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            weight = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(weight, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            _check_table("Embedding", _weight, num_embeddings, embedding_dim)
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draws new normal numbers; the padding row is 0.

        >>> layer = dynograd.nn.Embedding(4, 2, padding_idx=0)
        >>> layer.reset_parameters()
        >>> layer.weight[0].detach()
        tensor([0., 0.])
        """
        _normal_table(self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An embedding around a table that exists.

        Args:
            embeddings (num_embeddings, embedding_dim): the table; its memory is shared.
            freeze: it requires no grad.
            padding_idx: this row gets no gradient; it is not set to 0.
            max_norm: rows that are looked up are first shrunk, in place, to this norm.
            norm_type: p of that norm.
            scale_grad_by_freq: divide the gradient of a row by how often the call looked it up.
            sparse: the gradient of `weight` is a sparse tensor.
        Returns:
            Embedding.
        Raises:
            ValueError: `embeddings` is not 2-d.

        >>> table = dynograd.nn.Embedding.from_pretrained(tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> table(tensor([1]))
        tensor([[3., 4.]])
        """
        rows, columns = _size_of_table(embeddings)
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

    @recorded_as(
        "embedding", "weight", through=F, attributes=("max_norm", "padding_idx", "scale_grad_by_freq", "sparse")
    )
    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += ", scale_grad_by_freq=True"
        return f"{text}, sparse=True" if self.sparse else text


class EmbeddingBag(Module):
    """The sum, mean or maximum of the vectors of each bag of indices. `weight` is (num_embeddings, embedding_dim).

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of a row.
        max_norm: rows that are looked up are first shrunk, in place, to this norm.
        norm_type: p of that norm.
        scale_grad_by_freq: divide the gradient of a row by how often the call looked it up.
        mode: "sum", "mean" or "max".
        sparse: the gradient of `weight` is a sparse tensor of the rows that were looked up.
        include_last_offset: `offsets` has one more entry, the end of the last bag.
        padding_idx: indices of this value do not count.
        device, dtype: of `weight`.
    Shape: input (B, N), or (total,) with offsets (B,), or ragged (B, j); gives (B, embedding_dim). An empty bag gives zeros.
    Raises:
        TypeError, ShapeError: a size that is no integer, or negative.
        ValueError: another mode, padding_idx outside the table.

    >>> bag = dynograd.nn.EmbeddingBag.from_pretrained(tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
    >>> bag(tensor([0, 1, 1]), tensor([0, 2]))
    tensor([[4., 6.],
            [3., 4.]])
    """

    @without_private
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        check_sizes("EmbeddingBag", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag: mode has to be one of sum, mean or max, got {mode!r}.")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.padding_idx = _within("EmbeddingBag", padding_idx, num_embeddings)
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
            self.reset_parameters()
        else:
            _check_table("EmbeddingBag", _weight, num_embeddings, embedding_dim)
            self.weight = Parameter(_weight)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    def reset_parameters(self) -> None:
        """Draws new normal numbers; the padding row is 0.

        >>> layer = dynograd.nn.EmbeddingBag(4, 2, padding_idx=0)
        >>> layer.reset_parameters()
        >>> layer.weight[0].detach()
        tensor([0., 0.])
        """
        _normal_table(self.weight, self.padding_idx)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Bags over a table that exists.

        Args:
            embeddings (num_embeddings, embedding_dim): the table; its memory is shared.
            freeze: it requires no grad.
            max_norm: rows that are looked up are first shrunk, in place, to this norm.
            norm_type: p of that norm.
            scale_grad_by_freq: divide the gradient of a row by how often the call looked it up.
            mode: "sum", "mean" or "max".
            sparse: the gradient of `weight` is a sparse tensor.
            include_last_offset: `offsets` has one more entry, the end of the last bag.
            padding_idx: indices of this value do not count.
        Returns:
            EmbeddingBag.
        Raises:
            ValueError: `embeddings` is not 2-d.

        >>> bag = dynograd.nn.EmbeddingBag.from_pretrained(tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> bag(tensor([[0, 1]]))
        tensor([[2., 3.]])
        """
        rows, columns = _size_of_table(embeddings)
        bag = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """One vector for each bag.

        Args:
            input: (B, N) indices, or (total,) indices whose bags begin at `offsets`, or ragged (B, j).
            offsets (B,): where bags begin; only for 1-d input.
            per_sample_weights: in the shape of `input`, a factor of each vector; only for mode "sum".
        Returns:
            (B, embedding_dim).
        Raises:
            IndexRangeError: an index outside the table.

        >>> bag = dynograd.nn.EmbeddingBag.from_pretrained(tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
        >>> bag(tensor([[0, 1]]), per_sample_weights=tensor([[1.0, 10.0]]))
        tensor([[31., 42.]])
        """
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += ", scale_grad_by_freq=True"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


def _within(who: str, padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"{who}: padding_idx must be within num_embeddings, got {padding_idx} for {rows} rows.")
    return padding_idx % rows


def _check_table(who: str, weight: Any, rows: int, columns: int) -> None:
    if tuple(weight.shape) != (rows, columns):
        raise ValueError(
            f"{who}: shape of weight {tuple(weight.shape)} does not match num_embeddings and embedding_dim ({rows}, {columns})."
        )


def _size_of_table(embeddings: Any) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise ValueError(
            f"from_pretrained: Embeddings parameter is expected to be 2-dimensional, got shape {tuple(embeddings.shape)}."
        )
    return embeddings.shape[0], embeddings.shape[1]


def _normal_table(weight: Any, padding_idx: int | None) -> None:
    init.normal_(weight)
    if padding_idx is not None:
        with no_grad():
            weight[padding_idx].fill_(0)
