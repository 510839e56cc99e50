"""Transformer: encoder and decoder layers, stacks of them, and the two together."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.errors import ShapeError
from dynograd.interpreter.recorded_methods import recorded_whole
from dynograd.nn import functional as F
from dynograd.nn import init
from dynograd.nn.attention import MultiheadAttention
from dynograd.nn.layers.containers import ModuleList
from dynograd.nn.layers.dropout import Dropout, added
from dynograd.nn.layers.linear import Linear
from dynograd.nn.layers.normalization import LayerNorm
from dynograd.nn.module import Module
from dynograd.nn.multihead import additive_mask
from dynograd.ragged import is_ragged
from dynograd.tensor.creation import full
from dynograd.tensor.tensor import Tensor

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


class _Layer(Module):
    """What both kinds of layer share: self-attention, the feed-forward part, and how an activation is named."""

    def _set_up(self, d_model: int, dropout: float, activation: Any, norm_first: bool) -> None:
        if isinstance(activation, str):
            if activation not in ("relu", "gelu"):
                raise RuntimeError(
                    f"{type(self).__name__}: activation should be relu/gelu, not {activation}. Or pass a function."
                )
            activation = getattr(F, activation)
        self.norm_first = norm_first
        self.activation = activation

    def _attend(self, residual: Any, x: Any, mask: Any, padding: Any, causal: bool) -> Tensor:
        """`residual` plus what `x` sees of itself."""
        attended, _ = self.self_attn(
            x, x, x, key_padding_mask=padding, need_weights=False, attn_mask=mask, is_causal=causal
        )
        return added(residual, self.dropout1, attended)

    def _feed(self, x: Any) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and two Linear layers, each with a residual connection and LayerNorm.

    Args:
        d_model: E, the features; a multiple of `nhead`.
        nhead: heads of attention.
        dim_feedforward: features between the two Linear layers.
        dropout: the probability with which attention weights and results are dropped in training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: added to the variances of LayerNorm.
        batch_first: tensors are (B, T, E) instead of (T, B, E).
        norm_first: LayerNorm before each part instead of after.
        bias: Linear layers and LayerNorm have one.
        device, dtype: of the parameters.
    Shape: src (T, B, E), or (B, T, E) with batch_first, or (T, E), or ragged (B, j, E); gives the same shape.
    Raises:
        ValueError: d_model is not a multiple of nhead; dropout outside [0, 1].
        RuntimeError: an activation of another name.
    Source: Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762); Xiong et al., 2020 (arXiv:2002.04745), figure 1.

    >>> layer = dynograd.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(dynograd.zeros(3, 5, 8)).shape
    dynograd.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **options)
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self._set_up(d_model, dropout, activation, norm_first)

    @recorded_whole
    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """What the layer makes of `src`.

        Args:
            src (T, B, E): the sequences; (B, T, E) with batch_first, (T, E) for one, or ragged (B, j, E).
            src_mask (T, T) or (B * nhead, T, T): True where a query may not look; numbers are added to the scores.
            src_key_padding_mask (B, T): True where a key is padding.
            is_causal: says that `src_mask` is causal, which may be quicker.
        Returns:
            of the shape of `src`.

        >>> layer = dynograd.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        >>> layer(dynograd.zeros(3, 5, 8), src_key_padding_mask=dynograd.zeros(3, 5, dtype=dynograd.bool)).shape
        dynograd.Size([3, 5, 8])
        """
        if self.norm_first:
            x = self._attend(src, self.norm1(src), src_mask, src_key_padding_mask, is_causal)
            return added(x, self.dropout2, self._feed(self.norm2(x)))
        x = self.norm1(self._attend(src, src, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(added(x, self.dropout2, self._feed(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and two Linear layers, each with a residual connection and LayerNorm.

    Args:
        d_model: E, the features; a multiple of `nhead`.
        nhead: heads of attention.
        dim_feedforward: features between the two Linear layers.
        dropout: the probability with which attention weights and results are dropped in training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: added to the variances of LayerNorm.
        batch_first: tensors are (B, T, E) instead of (T, B, E).
        norm_first: LayerNorm before each part instead of after.
        bias: Linear layers and LayerNorm have one.
        device, dtype: of the parameters.
    Shape: tgt (T, B, E) and memory (S, B, E), or (B, T, E) and (B, S, E) with batch_first, or ragged (B, j, E); gives
        the shape of tgt.
    Raises:
        ValueError: d_model is not a multiple of nhead; dropout outside [0, 1].
        RuntimeError: an activation of another name.
    Source: Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762).

    >>> layer = dynograd.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(dynograd.zeros(3, 4, 8), dynograd.zeros(3, 5, 8)).shape
    dynograd.Size([3, 4, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **options)
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)
        self._set_up(d_model, dropout, activation, norm_first)

    @recorded_whole
    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """What the layer makes of `tgt`, looking at `memory`.

        Args:
            tgt (T, B, E): the target sequences; (B, T, E) with batch_first, or ragged (B, j, E).
            memory (S, B, E): the encoder's output, in the same layout.
            tgt_mask (T, T), memory_mask (T, S): True where a query may not look; numbers are added to the scores.
                Also (B * nhead, T, *).
            tgt_key_padding_mask (B, T), memory_key_padding_mask (B, S): True where a key is padding.
            tgt_is_causal, memory_is_causal: say that the mask is causal, which may be quicker.
        Returns:
            of the shape of `tgt`.

        >>> layer = dynograd.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        >>> layer(dynograd.zeros(3, 4, 8), dynograd.zeros(3, 5, 8)).shape
        dynograd.Size([3, 4, 8])
        """

        def look(residual: Any, x: Any) -> Tensor:
            attended, _ = self.multihead_attn(
                x,
                memory,
                memory,
                key_padding_mask=memory_key_padding_mask,
                need_weights=False,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )
            return added(residual, self.dropout2, attended)

        if self.norm_first:
            x = self._attend(tgt, self.norm1(tgt), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            x = look(x, self.norm2(x))
            return added(x, self.dropout3, self._feed(self.norm3(x)))
        x = self.norm1(self._attend(tgt, tgt, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(look(x, x))
        return self.norm3(added(x, self.dropout3, self._feed(x)))


class TransformerEncoder(Module):
    """`num_layers` copies of an encoder layer, one after another.

    Args:
        encoder_layer: what is copied.
        num_layers: how often.
        norm: a last normalization.
        enable_nested_tensor, mask_check: accepted for PyTorch's sake; padding is always computed as given.
    Shape: src (T, B, E), or (B, T, E) if the layer is batch_first, or ragged (B, j, E); gives the same shape.
    Source: Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762).

    >>> layer = dynograd.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> dynograd.nn.TransformerEncoder(layer, num_layers=2)(dynograd.zeros(3, 5, 8)).shape
    dynograd.Size([3, 5, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """What the layers make of `src`.

        Args:
            src (T, B, E): the sequences; (B, T, E) if the layers are batch_first, or ragged (B, j, E).
            mask (T, T) or (B * nhead, T, T): True where a query may not look; numbers are added to the scores.
            src_key_padding_mask (B, T): True where a key is padding.
            is_causal: says that `mask` is causal; None looks at it.
        Returns:
            of the shape of `src`.

        >>> layer = dynograd.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        >>> encoder, mask = dynograd.nn.TransformerEncoder(layer, 2), dynograd.nn.Transformer.generate_square_subsequent_mask(5)
        >>> encoder(dynograd.zeros(3, 5, 8), mask=mask).shape
        dynograd.Size([3, 5, 8])
        """
        mask = additive_mask("TransformerEncoder", mask, src.dtype)
        causal = _is_causal(mask, is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """`num_layers` copies of a decoder layer, one after another.

    Args:
        decoder_layer: what is copied.
        num_layers: how often.
        norm: a last normalization.
    Shape: tgt (T, B, E) and memory (S, B, E), or batch first if the layer is, or ragged (B, j, E); gives the shape of tgt.
    Source: Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762).

    >>> layer = dynograd.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> dynograd.nn.TransformerDecoder(layer, num_layers=2)(dynograd.zeros(3, 4, 8), dynograd.zeros(3, 5, 8)).shape
    dynograd.Size([3, 4, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """What the layers make of `tgt`, looking at `memory`.

        Args:
            tgt (T, B, E): the target sequences; (B, T, E) if the layers are batch_first, or ragged (B, j, E).
            memory (S, B, E): the encoder's output, in the same layout.
            tgt_mask (T, T), memory_mask (T, S): True where a query may not look; numbers are added to the scores.
                Also (B * nhead, T, *).
            tgt_key_padding_mask (B, T), memory_key_padding_mask (B, S): True where a key is padding.
            tgt_is_causal, memory_is_causal: say that the mask is causal, which may be quicker; `tgt_is_causal=None`
                looks at `tgt_mask`.
        Returns:
            of the shape of `tgt`.

        >>> layer = dynograd.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
        >>> dynograd.nn.TransformerDecoder(layer, num_layers=2)(dynograd.zeros(3, 4, 8), dynograd.zeros(3, 5, 8)).shape
        dynograd.Size([3, 4, 8])
        """
        tgt_mask = additive_mask("TransformerDecoder", tgt_mask, tgt.dtype)
        causal = _is_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of source sequences and a decoder of target sequences that looks at them.

    Args:
        d_model: E, the features; a multiple of `nhead`.
        nhead: heads of attention.
        num_encoder_layers, num_decoder_layers: of each stack.
        dim_feedforward: features between the two Linear layers of a layer.
        dropout: the probability with which attention weights and results are dropped in training.
        activation: "relu", "gelu" or a function.
        custom_encoder, custom_decoder: modules in place of the stacks.
        layer_norm_eps: added to the variances of LayerNorm.
        batch_first: tensors are (B, T, E) instead of (T, B, E).
        norm_first: LayerNorm before each part instead of after.
        bias: Linear layers and LayerNorm have one.
        device, dtype: of the parameters.
    Shape: src (S, B, E) and tgt (T, B, E), or (B, S, E) and (B, T, E) with batch_first, or ragged (B, j, E); gives
        the shape of tgt.
    Raises:
        ValueError: d_model is not a multiple of nhead; dropout outside [0, 1].
        RuntimeError: an activation of another name.
        ShapeError: in a call: another number of sequences in src and tgt, or features that are not d_model.
    Source: Vaswani et al., Attention is all you need, 2017 (arXiv:1706.03762).

    >>> model = dynograd.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(dynograd.zeros(3, 5, 8), dynograd.zeros(3, 4, 8)).shape
    dynograd.Size([3, 4, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:
        super().__init__()
        options = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*options), num_encoder_layers, norm())
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*options), num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """What the decoder makes of `tgt`, looking at what the encoder makes of `src`.

        Args:
            src (S, B, E), tgt (T, B, E): the sequences; batch first with batch_first, or ragged (B, j, E).
            src_mask (S, S), tgt_mask (T, T), memory_mask (T, S): True where a query may not look; numbers are added to the
                scores.
            src_key_padding_mask (B, S), tgt_key_padding_mask (B, T), memory_key_padding_mask (B, S): True where a key is padding.
            src_is_causal, tgt_is_causal, memory_is_causal: say that the mask is causal; None looks at it.
        Returns:
            of the shape of `tgt`.
        Raises:
            ShapeError: another number of sequences in `src` and `tgt`, or features that are not d_model.

        >>> model = dynograd.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
        >>> mask = model.generate_square_subsequent_mask(4)
        >>> model(dynograd.zeros(3, 5, 8), dynograd.zeros(3, 4, 8), tgt_mask=mask).shape
        dynograd.Size([3, 4, 8])
        """
        batch = 0 if self.batch_first or is_ragged(src) else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise ShapeError(
                f"Transformer: the batch number of src and tgt must be equal, got {tuple(src.shape)} and {tuple(tgt.shape)}, with the "
                f"batch in dim {batch}."
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                f"Transformer: the feature number of src and tgt must be equal to d_model ({self.d_model}), got {tuple(src.shape)} and "
                f"{tuple(tgt.shape)}."
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: DeviceLike = None, dtype: DtypeLike = None) -> Tensor:
        """A mask to add to scores, so that no query looks ahead: -inf above the diagonal, 0 elsewhere.

        Args:
            sz: how many queries and keys.
            device, dtype: of the mask.
        Returns:
            (sz, sz).

        >>> dynograd.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)


def _is_causal(mask: Any, said: bool | None) -> bool:
    if said is not None or mask is None:
        return bool(said)
    sizes = tuple(mask.shape[1:]) if is_ragged(mask) else tuple(mask.shape)
    if len(sizes) != 2 or sizes[0] != sizes[1]:
        return False
    causal = Transformer.generate_square_subsequent_mask(sizes[0], dtype=mask.dtype)
    return bool((mask == causal).all())


# --- PyTorch's private names that programs use --------------------------------------------------------------------------


def _get_clones(module: Any, N: int) -> ModuleList:
    """`N` deep copies of a module."""
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation: str) -> Any:
    """The function of "relu" or "gelu"."""
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}.")
    return getattr(F, activation)
