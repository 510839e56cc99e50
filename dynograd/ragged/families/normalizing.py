"""Batch norm of ragged tensors: statistics of each channel over all real elements of all rows, and of nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.ragged.calls import Call, ragged_rule
from dynograd.ragged.families.groups import index_of
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Shapes
from dynograd.ragged.tensor import RaggedTensor

__all__ = ["channels_last"]


@ragged_rule("batch_norm.public", kind="packed")
def batch_norm(call: Call) -> Any:
    """(B, C, j), images (B, C, j, j): statistics over the real elements of all rows."""
    x = call["input"]
    part = x.partition
    if isinstance(x.packed, RaggedTensor):
        return x.with_packed(call.with_(input=x.packed))
    if x.place == 1 if not isinstance(part, Shapes) else part.fixed[0] is None:
        raise call.refuse(
            f"dim 1 counts the channels, but of shape {tuple(x.shape)} it is ragged. Use x.transpose(1, 2), which has shape (B, C, j)."
        )
    if not isinstance(part, Shapes):
        result = call.with_(input=run("unsqueeze", x.packed, 0))
        return x.with_packed(run("squeeze", result, 0))
    places, back = channels_last(part)
    columns = run("index", x.packed, [index_of(places, x.packed)], (0,))
    result = call.with_(input=run("reshape", columns, (-1, part.fixed[0])))
    return x.with_packed(run("index", run("reshape", result, (-1,)), [index_of(back, x.packed)], (0,)))


def channels_last(part: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """Places of the elements of all rows (C, ...), channels side by side, and the inverse."""
    return part.kept("channels_last", lambda: _channels_last(part))


def _channels_last(part: Shapes) -> tuple[np.ndarray, np.ndarray]:
    """Places of the elements of all rows, channels side by side, and the inverse."""
    channels = part.fixed[0] or 1
    sizes = part.lengths // channels
    row = np.repeat(np.arange(part.count), sizes)
    inside = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = part.offsets[:-1][row] + inside
    places = (first[:, None] + sizes[row][:, None] * np.arange(channels)).reshape(-1)
    back = np.empty_like(places)
    back[places] = np.arange(places.size)
    return places, back
