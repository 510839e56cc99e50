"""MultiheadAttention, and `sdpa_kernel`, which PyTorch programs choose an implementation with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import ShapeError
from dynograd.interpreter.recorded_methods import recorded_whole
from dynograd.nn import init
from dynograd.nn.checks import check_share, check_sizes
from dynograd.nn.layers.linear import NonDynamicallyQuantizableLinear
from dynograd.nn.module import Module
from dynograd.nn.multihead import multi_head_attention_forward
from dynograd.nn.parameter import Parameter
from dynograd.ragged import is_ragged
from dynograd.tensor.creation import empty
from dynograd.tensor.tensor import Tensor

__all__ = ["MultiheadAttention", "SDPBackend", "sdpa_kernel"]


class MultiheadAttention(Module):
    """Attention of several heads, each in its part of the features.

    Args:
        embed_dim: E, the size of queries and results; a multiple of `num_heads`.
        num_heads: how many parts E is cut into.
        dropout: the probability with which weights are dropped in training, from 0 to 1.
        bias: the projections have one.
        add_bias_kv: learn one more key and value that every query sees.
        add_zero_attn: add a key and value of zeros.
        kdim, vdim: sizes of keys and values, `embed_dim` when left out.
        batch_first: tensors are (B, T, E) instead of (T, B, E).
        device, dtype: of the parameters.
    Shape: query (L, B, E), key (S, B, kdim), value (S, B, vdim), or batch first, or without B, or ragged (B, j, E);
        gives (output, weights): output of the query's shape, weights (B, L, S) or None.
    Raises:
        ValueError: embed_dim is not a multiple of num_heads; dropout outside [0, 1].
        TypeError, ShapeError: a size that is no integer above 0; in a call, sizes that do not fit.
    Source: Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762), section 3.2.2.

    >>> attend = dynograd.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = dynograd.zeros(3, 5, 8)
    >>> output, weights = attend(x, x, x)
    >>> output.shape, weights.shape
    (dynograd.Size([3, 5, 8]), dynograd.Size([3, 5, 5]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        check_sizes("MultiheadAttention", 1, embed_dim=embed_dim, num_heads=num_heads)
        check_share("MultiheadAttention", "dropout", dropout)
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: embed_dim must be divisible by num_heads, both greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads}."
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        apart = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, width in apart.items():
            weight = None if self._qkv_same_embed_dim else Parameter(empty(embed_dim, width, **options))
            self.register_parameter(name, weight)
        joined = Parameter(empty(3 * embed_dim, embed_dim, **options)) if self._qkv_same_embed_dim else None
        self.register_parameter("in_proj_weight", joined)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * embed_dim, **options)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **options)
        self.register_parameter("bias_k", Parameter(empty(1, 1, embed_dim, **options)) if add_bias_kv else None)
        self.register_parameter("bias_v", Parameter(empty(1, 1, embed_dim, **options)) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for name in ("bias_k", "bias_v"):
            if self._parameters[name] is not None:
                init.xavier_normal_(self._parameters[name])

    @recorded_whole
    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """What each query gathers from the values, and how it weighs them.

        Ragged tensors (B, j, E) have their batch first in any case; beside them dense ones do too.

        Args:
            query (L, B, E), key (S, B, kdim), value (S, B, vdim): batch first with batch_first; without B for a single sequence.
            key_padding_mask (B, S): True where a key is padding; numbers are added to the scores.
            need_weights: also give the weights; without, it is quicker.
            attn_mask (L, S) or (B * num_heads, L, S): True where a query may not look; numbers are added to the scores.
            average_attn_weights: give the mean of the heads' weights.
            is_causal: says that `attn_mask` is causal, which may be quicker.
        Returns:
            (output, weights): output of the query's shape; weights (B, L, S), (B, num_heads, L, S) unless averaged, or None.
        Raises:
            ShapeError: sizes that do not fit each other.
            RuntimeError: `is_causal` without a mask.

        >>> attend, x = dynograd.nn.MultiheadAttention(8, 2, batch_first=True), dynograd.zeros(3, 5, 8)
        >>> attend(x, x, x, key_padding_mask=dynograd.zeros(3, 5, dtype=dynograd.bool), average_attn_weights=False)[1].shape
        dynograd.Size([3, 2, 5, 5])
        """
        turned = self.batch_first and query.dim() == 3 and not (is_ragged(query) or is_ragged(key))
        if turned:
            same = query is key, key is value
            query = query.transpose(0, 1)
            key = query if same[0] else key.transpose(0, 1)
            value = key if same[1] else value.transpose(0, 1)
        output, weights = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (output.transpose(0, 1) if turned else output), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one, batch first, and its kind.

        Args:
            attn_mask (L, L) or (B * num_heads, L, L): as of `forward`.
            key_padding_mask (B, L): as of `forward`.
            query (B, L, E): whose sizes they are.
        Returns:
            (None, None) without masks; (B, L) and 1 for padding alone; else (B, num_heads, L, L), the sum of both, and 2.

        >>> dynograd.nn.MultiheadAttention(8, 2).merge_masks(dynograd.zeros(5, 5), None, dynograd.zeros(3, 5, 8))[0].shape
        dynograd.Size([3, 2, 5, 5])
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        if query.dim() != 3:
            raise ShapeError(f"merge_masks: query should be (B, L, E), got shape {tuple(query.shape)}.")
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2


class SDPBackend(Enum):
    """PyTorch's implementations of attention. Here there is one, which never holds all scores at once.

    >>> dynograd.nn.attention.SDPBackend.FLASH_ATTENTION.name
    'FLASH_ATTENTION'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """A context that accepts a choice of implementations; the results are the same whatever it is.

    Args:
        backends: an `SDPBackend`, or a list of them.
        set_priority: accepted.
    Raises:
        AssertionError: something else.

    >>> from dynograd.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     x = dynograd.nn.functional.scaled_dot_product_attention(*[dynograd.ones(1, 2, 4)] * 3)
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(f"sdpa_kernel: expected SDPBackend or a list of it, got {backend!r}.")
    yield
