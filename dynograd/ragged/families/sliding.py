"""Convolutions and pools along one ragged dim, (B, C, j), (B, C, j, F) or (B, C, j, H, W), without crossing the borders of rows.

All rows are laid behind one another with the padding between them, each beginning at a multiple of the stride; one dense convolution goes over
the whole, and the results within rows are picked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynograd.errors import ShapeError
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.ops.index.indices import FULL
from dynograd.ragged.calls import Call, ragged_rule, results
from dynograd.ragged.families.groups import index_of
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition, Shapes, shown
from dynograd.ragged.tensor import RaggedTensor, make
from dynograd.ragged.uniform import as_dense, as_ragged

_NOTE = "along one ragged dim, such as that of (B, C, j), within each row; images of several sizes by size"


@ragged_rule("conv1d", "conv2d", "conv3d", kind="rows", note=_NOTE)
def convolution(call: Call) -> Any:
    x, padding, rank = call["input"], call["padding"], int(call.name[4])
    result = _rectangle(call, x, rank)
    if result is not None:
        return result
    at = _ragged_dim(x, rank)
    if at is None or padding == "valid":
        return call.with_(padding=0) if padding == "valid" else NotImplemented
    stride, dilation = (_each(call[name], rank) for name in ("stride", "dilation"))
    reaches = [step * (size - 1) + 1 for step, size in zip(dilation, call["weight"].shape[2:], strict=True)]
    if padding == "same":
        if set(stride) != {1} or any([not reach % 2 for dim, reach in enumerate(reaches) if dim != at]):
            return NotImplemented
        pads = tuple([(reach - 1) // 2 for reach in reaches])
        return _slide(call, x, at, reaches[at], 1, pads, reaches[at] - 1 - pads[at], 0.0)
    pads = _each(padding, rank)
    return _slide(call, x, at, reaches[at], stride[at], pads, pads[at], 0.0)


@ragged_rule("max_pool1d", "max_pool2d", "max_pool3d", kind="rows", note=_NOTE)
def max_pool(call: Call) -> Any:
    x, rank = call["input"], int(call.name[8])
    result = _rectangle(call, x, rank)
    if result is not None:
        return result
    at = _ragged_dim(x, rank)
    if at is None or call["ceil_mode"] or call["return_indices"]:
        return NotImplemented
    sizes = _each(call["kernel_size"], rank)
    strides, pads = _each(call["stride"] or sizes, rank), _each(call["padding"], rank)
    dilation = _each(call["dilation"], rank)[at]
    if pads[at] and x.partition.count and x.partition.lengths.min() < dilation:
        return NotImplemented  # a window may lie in the padding alone, and says what it says for the row alone
    return _slide(call, x, at, dilation * (sizes[at] - 1) + 1, strides[at], pads, pads[at], float("-inf"))


@ragged_rule("avg_pool1d", "avg_pool2d", "avg_pool3d", kind="rows", note=_NOTE)
def avg_pool(call: Call) -> Any:
    x, rank = call["input"], int(call.name[8])
    result = _rectangle(call, x, rank)
    if result is not None:
        return result
    at, pads = _ragged_dim(x, rank), _each(call["padding"], rank)
    if at is None or call["ceil_mode"] or (not call["count_include_pad"] and pads[at]):
        return NotImplemented
    sizes = _each(call["kernel_size"], rank)
    return _slide(call, x, at, sizes[at], _each(call["stride"] or sizes, rank)[at], pads, pads[at], 0.0)


@ragged_rule("adaptive_avg_pool1d", "adaptive_max_pool1d", kind="segments")
def adaptive(call: Call) -> Any:
    """To one element per row: the mean or the maximum of each row; to more, rows of equal length together."""
    x = call["input"]
    if _ragged_dim(x, 1) is None or _each(call["output_size"], 1) != (1,) or call.get("return_indices"):
        return NotImplemented
    if call.key == "adaptive_avg_pool1d":
        return run("mean", x, 2, True)
    return run("amax", x, 2, True)


def _rectangle(call: Call, x: Any, rank: int) -> Any:
    """The op on rows (C, j, ...) of one length, as a dense batch; None where they are not."""
    if not isinstance(x, RaggedTensor) or x.ndim != rank + 2 or x.place < 2:
        return None
    dense = as_dense(x)
    return None if dense is None else results(call.with_(input=dense), lambda result: as_ragged(result, x))


def _ragged_dim(x: Any, rank: int) -> int | None:
    """Which of the last `rank` dims is ragged, if rows are to be laid out in one line; in batch-invariant mode they go by length, with the bits
    of the row alone, and so do images of few lengths, which then need no copies."""
    if not isinstance(x, RaggedTensor) or isinstance(x.partition, Shapes) or batch_invariant():
        return None
    if x.place < 2 or x.ndim != rank + 2 or isinstance(x.packed, RaggedTensor):
        return None
    if rank > 1 and len(x.partition.by_length()) < 3:
        return None
    return x.place - 2


def _each(value: Any, rank: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return tuple([int(number) for number in (values * rank if len(values) == 1 else values)])


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


def _slide(
    call: Call, x: RaggedTensor, at: int, reach: int, stride: int, pads: tuple[int, ...], right: int, filling: float
) -> Any:
    """The op on one line of all rows along dim `at`, `filling` between them; `pads` in front, and `right` behind each row."""
    part, left = x.partition, pads[at]
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
    packed = x.packed
    template = (*(FULL,) * (at + 1), 0)  # of dim at + 1
    shape = (*packed.shape[: at + 1], lines.length, *packed.shape[at + 2 :])
    line = run("index_backward", packed, [index_of(lines.places, packed)], template, tuple(shape))
    if filling and lines.length > part.total:
        holes = np.ones((lines.length, *(1,) * (packed.ndim - at - 2)), bool)
        holes[lines.places] = False
        line = run("masked_fill", line, index_of(holes, packed), filling)
    changed: dict[str, Any] = {
        "input": run("unsqueeze", line, 0),
        "padding": tuple([0 if dim == at else pad for dim, pad in enumerate(pads)]),
    }
    result = run("squeeze", call.with_(**changed), 0)
    return make(run("index", result, [index_of(lines.picked, result)], template), lines.part, at + 2)
