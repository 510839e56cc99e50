"""`embedding_bag`, whose bags are found beside ops, written with ops while a program is recorded."""

from __future__ import annotations

from typing import Any

from dynograd.autograd.nodes import user_line
from dynograd.nn import functional as F
from dynograd.onnx.refusals import refusal
from dynograd.onnx.structures import Watching
from dynograd.ops.op import registry
from dynograd.plans.recording import Recording
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__ = ["BAGS"]


def _bag(
    plan: Recording,
    below: Any,
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """(B, N) indices: rows of one bag beside each other. (N,) indices: those of each bag among all, by a (B, N, 1) mask."""
    if max_norm is not None:
        raise refusal("embedding_bag with max_norm writes into its table", user_line(), "Leave max_norm out.")
    rows = F.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    kept = input >= 0 if padding_idx is None else input != padding_idx % weight.shape[0]
    if offsets is not None:
        starts = offsets[:-1] if include_last_offset else offsets
        bags = (creation.arange(input.shape[0]).unsqueeze(1) >= starts).sum(1) - 1
        kept = kept & (creation.arange(starts.shape[0]).unsqueeze(1) == bags)
        rows = rows.unsqueeze(0)
    mask = kept.unsqueeze(-1)
    counts = mask.sum(-2)
    if mode == "max":
        return rows.masked_fill(~mask, -float("inf")).amax(-2).masked_fill(counts == 0, 0.0)
    total = rows.masked_fill(~mask, 0.0).sum(-2)
    return total / counts.clamp(min=1) if mode == "mean" else total


# The public function, and the one that programs of `dynograd.export` call.
_HANDLERS: dict[Any, Any] = {F.embedding_bag: _bag, registry["embedding_bag"].function: _bag}
BAGS = Watching(_HANDLERS)
