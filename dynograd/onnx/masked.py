"""`masked_scatter`, which counts the true elements of its mask beside ops, written with ops while a program is recorded."""

from __future__ import annotations

from typing import Any

from dynograd.base.shapes import broadcast_shapes
from dynograd.onnx.structures import Watching
from dynograd.ops.op import registry
from dynograd.plans.recording import Recording
from dynograd.tensor.tensor import Tensor

__all__ = ["MASKED"]


def _masked_scatter(plan: Recording, below: Any, input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Element k of the source goes to the true element that has k others before it."""
    wide = mask.expand(broadcast_shapes("masked_scatter", tuple(input.shape), tuple(mask.shape)))
    before = wide.flatten().cumsum(0) - 1
    elements = source.flatten()[before.clamp(min=0, max=source.numel() - 1)]
    return elements.reshape(wide.shape).where(wide, input)


_HANDLERS: dict[Any, Any] = {registry["masked_scatter"].function: _masked_scatter}
MASKED = Watching(_HANDLERS)
