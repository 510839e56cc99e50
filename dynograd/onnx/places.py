"""`as_strided` and `masked_scatter`, whose places are found in memory and beside ops, written with ops while a program is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dynograd.autograd.nodes import user_line
from dynograd.base.shapes import broadcast_shapes
from dynograd.onnx.noting import aside
from dynograd.onnx.refusals import refusal
from dynograd.onnx.structures import Watching
from dynograd.ops.layout.strides import as_strided
from dynograd.ops.op import registry
from dynograd.plans.recording import Recording
from dynograd.tensor import creation
from dynograd.tensor.tensor import Tensor

__all__ = ["PLACES"]


def _as_strided(
    plan: Recording, below: Any, input: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    with aside():
        shape = below(input, size, stride, storage_offset).shape
    start = 0 if storage_offset is None else storage_offset - input.storage_offset()
    return _picked(input, shape, tuple(stride), start)


def _strided_view(
    plan: Recording, below: Any, input: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> Tensor:
    return _picked(input, size, stride, offset)


def _picked(input: Tensor, size: Sequence[int], stride: Sequence[int], start: int) -> Tensor:
    last = start + sum([(count - 1) * step for count, step in zip(size, stride)])
    if not input.is_contiguous() or start < 0 or (0 not in size and last >= input.numel()):
        raise refusal(
            f"as_strided of size {tuple(size)} and stride {tuple(stride)} sees memory that its tensor of shape {tuple(input.shape)} does not show, or "
            f"shows in another order",
            user_line(),
            "Take it of x.contiguous(), or of the tensor that holds all the elements.",
        )
    places = creation.arange(1) + start
    for count, step in zip(size, stride):
        places = places.unsqueeze(-1) + creation.arange(count) * step
    return input.reshape(-1)[places.squeeze(0)]


def _masked_scatter(plan: Recording, below: Any, input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Element k of the source goes to the true element that has k others before it."""
    wide = mask.expand(broadcast_shapes("masked_scatter", tuple(input.shape), tuple(mask.shape)))
    before = wide.flatten().cumsum(0) - 1
    elements = source.flatten()[before.clamp(min=0, max=source.numel() - 1)]
    return elements.reshape(wide.shape).where(wide, input)


_HANDLERS: dict[Any, Any] = {
    as_strided: _as_strided,
    registry["as_strided"].function: _strided_view,
    registry["masked_scatter"].function: _masked_scatter,
}
PLACES = Watching(_HANDLERS)
