"""Windows of images as columns, and columns added back into images: copies and sums of one place of the window after the other."""

from __future__ import annotations

from typing import Any

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.conv.patches_cpu import counts_of, windows_of
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.families.rearrangements import added
from dynograd.plans.lowering.forms import Lowered, arguments_of, form
from dynograd.plans.lowering.parts import rules_in_parts

__all__: list[str] = []

_MOST = 64  # places of a window; of more, each would be a small launch of its own


class _Images:
    """Images with their padding, in memory of the plan's own."""

    def __init__(self, window: Any, shape: Any, dtype: Any) -> None:
        self.kernel, self.dilation, padding, self.stride = window
        self.counts = counts_of(shape[2:], self.kernel, self.dilation, padding, self.stride)
        self.fits = self.kernel[0] * self.kernel[1] <= _MOST
        self.padded = layouts.scratch((*shape[:2], *[size + 2 * p for size, p in zip(shape[2:], padding)]), dtype)
        inner = [slice(p, p + size) for size, p in zip(shape[2:], padding)]
        self.inner = self.padded[(slice(None), slice(None), *inner)]

    def pairs(self, columns: Any) -> list[tuple[Any, Any]]:
        """What of the images stands at each place of all windows, and what of row-major columns does."""
        batch, channels = self.padded.shape[:2]
        apart = columns.reshape(batch, channels, *self.kernel, *self.counts)
        windows = windows_of(self.padded, self.kernel, self.dilation, self.counts, self.stride)
        places = [(row, column) for row in range(self.kernel[0]) for column in range(self.kernel[1])]
        return [(windows[:, :, row, column], apart[:, :, row, column]) for row, column in places]


def _joined(*parts: list[Launch] | None) -> Lowered | None:
    launches: list[Launch] = []
    for part in parts:
        if part is None:
            return None
        launches += part
    return Lowered(launches)


@form("op", "columns_of_patches")
def _columns(call: Call) -> Lowered | None:
    arguments, out = arguments_of(call), call.outputs[0]
    x = arguments["input"]
    images = _Images(arguments["window"], x.shape, x.dtype)
    if not images.fits or not out.flags.c_contiguous or not out.size:
        return None
    put = [layouts.copy(column, window) for window, column in images.pairs(out)]
    return _joined(layouts.fill(images.padded, 0), layouts.copy(images.inner, x), *put)


@form("op", "patches_of_columns")
def _added_up(call: Call) -> Lowered | None:
    arguments, out = arguments_of(call), call.outputs[0]
    before: list[Launch] = []
    columns = layouts.row_major(arguments["input"], before)
    if columns is None or not columns.size or out.dtype.name not in ("float32", "float64"):
        return None
    images = _Images(arguments["window"], out.shape, out.dtype)
    if not images.fits:
        return None
    sums = [added(window, column) for window, column in images.pairs(columns)]
    return _joined(layouts.fill(images.padded, 0), before, *sums, layouts.copy(out, images.inner))


rules_in_parts("columns_of_patches", "patches_of_columns")
