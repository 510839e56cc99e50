"""Convolutions and pools along the ragged dim (B, C, j), without crossing the borders of rows.

All rows are laid behind one another with the padding between them, each beginning at a multiple of the stride; one dense convolution goes over
the whole, and the results within rows are picked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.errors import ShapeError
from dynograd.kernels.batch_invariance import batch_invariant
from dynograd.ops.op import registry
from dynograd.ragged.calls import Call, ragged_rule, results
from dynograd.ragged.elementwise import run
from dynograd.ragged.groups import index_of
from dynograd.ragged.partitions import Partition, Shapes, shown
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.ragged.uniform import as_dense, as_ragged

__all__: list[str] = []

_NOTE = "along the ragged dim of (B, C, j), within each row"


@ragged_rule("conv1d", kind="rows", note=_NOTE)
def conv1d(call: Call) -> Any:
    x, padding = call["input"], call["padding"]
    found = _rectangle(call, x)
    if found is not None:
        return found
    if not _is_channels_rows(x) or padding == "valid":
        return call.with_(padding=0) if padding == "valid" else NotImplemented
    stride, dilation = (_one(call[name]) for name in ("stride", "dilation"))
    size = call["weight"].shape[-1]
    reach = dilation * (size - 1) + 1
    if padding == "same":
        if stride != 1:
            return NotImplemented
        left, right = (reach - 1) // 2, reach - 1 - (reach - 1) // 2
    else:
        left = right = _one(padding)
    return _slide(call, x, reach, stride, left, right, 0.0)


@ragged_rule("max_pool1d", kind="rows", note=_NOTE)
def max_pool1d(call: Call) -> Any:
    x = call["input"]
    found = _rectangle(call, x)
    if found is not None:
        return found
    if not _is_channels_rows(x) or call["ceil_mode"] or call["return_indices"]:
        return NotImplemented
    size = _one(call["kernel_size"])
    stride, padding, dilation = _one(call["stride"] or size), _one(call["padding"]), _one(call["dilation"])
    if padding and x.partition.count and x.partition.lengths.min() < dilation:
        return NotImplemented  # a window may lie in the padding alone, and says what it says for the row alone
    return _slide(call, x, dilation * (size - 1) + 1, stride, padding, padding, float("-inf"))


@ragged_rule("avg_pool1d", kind="rows", note=_NOTE)
def avg_pool1d(call: Call) -> Any:
    x = call["input"]
    found = _rectangle(call, x)
    if found is not None:
        return found
    if not _is_channels_rows(x) or call["ceil_mode"] or (not call["count_include_pad"] and _one(call["padding"])):
        return NotImplemented
    size = _one(call["kernel_size"])
    padding = _one(call["padding"])
    return _slide(call, x, size, _one(call["stride"] or size), padding, padding, 0.0)


@ragged_rule("adaptive_avg_pool1d", "adaptive_max_pool1d", kind="segments")
def adaptive(call: Call) -> Any:
    """To one element per row: the mean or the maximum of each row; to more, rows of equal length together."""
    x = call["input"]
    if not _is_channels_rows(x) or _one(call["output_size"]) != 1 or call.get("return_indices"):
        return NotImplemented
    if call.key == "adaptive_avg_pool1d":
        return registry["mean"].function(x, 2, True)
    return registry["amax"].function(x, 2, True)


def _rectangle(call: Call, x: Any) -> Any:
    """The op on rows (C, j) of one length, as a dense batch; None where they are not."""
    if not isinstance(x, RaggedTensor) or x.ndim != 3 or x.place != 2:
        return None
    dense = as_dense(x)
    return None if dense is None else results(call.with_(input=dense), lambda one: as_ragged(one, x))


def _is_channels_rows(x: Any) -> bool:
    """Whether to lay rows out in one line; in batch-invariant mode they go by length, with the bits of the row alone."""
    if not isinstance(x, RaggedTensor) or isinstance(x.partition, Shapes) or batch_invariant():
        return False
    return x.place == 2 and x.ndim == 3 and not isinstance(x.packed, RaggedTensor)


def _one(value: Any) -> int:
    return int(value[0] if isinstance(value, (tuple, list)) else value)


class _Lines:
    """Where the elements of rows stand when all are laid out in one line, and where the results of the slide are picked."""

    def __init__(self, part: Partition, reach: int, stride: int, left: int, right: int) -> None:
        padded = part.lengths + left + right
        self.short = padded < reach
        room = -(-padded // stride) * stride
        starts = np.cumsum(room) - room
        self.length = int(room.sum())
        self.places = Partition.places_from(starts + left, part)
        self.part = Partition(np.where(self.short, 0, (padded - reach) // stride + 1))
        if self.part.same(part):
            self.part = part
        self.picked = Partition.places_from(starts // stride, self.part)


def _slide(call: Call, x: RaggedTensor, reach: int, stride: int, left: int, right: int, filling: float) -> Any:
    """The op on one line of all rows, `filling` between them."""
    part = x.partition
    lines = part.kept(("lines", reach, stride, left, right), lambda: _Lines(part, reach, stride, left, right))
    if lines.short.any():
        row = int(lines.short.argmax())
        raise ShapeError(
            f"{call.name}: row {row} has {part.lengths[row]} elements{f', {part.lengths[row] + left + right} with padding' if left + right else ''}, "
            f"but the kernel reaches over {reach} (lengths {shown(part.lengths)}). Pad it, or leave short rows out."
        )
    if not part.count:
        lines = part.kept(("line", reach), lambda: _Lines(Partition(np.array([reach])), reach, stride, 0, 0))
        lines.part, lines.places, lines.picked = part, lines.places[:0], lines.picked[:0]
    front = run("permute", x.packed, (1, 0))
    channels = int(front.shape[1])
    line = run("index_backward", front, [index_of(lines.places, front)], (0,), (lines.length, channels))
    if filling and lines.length > part.total:
        holes = np.ones((lines.length, 1), bool)
        holes[lines.places] = False
        line = registry["masked_fill"].function(line, index_of(holes, front), filling)
    line = registry["unsqueeze"].function(run("permute", line, (1, 0)), 0)
    changed: dict[str, Any] = {"input": line, "padding": 0}
    found = call.with_(**changed)
    rows = run("permute", registry["squeeze"].function(found, 0), (1, 0))
    picked = run("index", rows, [index_of(lines.picked, rows)], (0,))
    return make(run("permute", picked, (1, 0)), lines.part, 2)
