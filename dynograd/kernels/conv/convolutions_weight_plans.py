"""The tables of a convolution's weight gradient: see `convolutions_plans` for the words."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from dynograd.kernels.conv import convolutions_tables as head
from dynograd.kernels.conv.convolutions_layouts import OVERLAP, ROOM_BYTES, Layout
from dynograd.kernels.conv.convolutions_plans import blocks_of, forward_layout
from dynograd.kernels.conv.convolutions_tables import tables_of

# Items of a weight gradient: enough for some threads, few enough to be added up.
ITEMS = 16
# Places of g that the weight gradient takes at a time: lines of g and planes of x of a few tiles then fit the first-level cache
# (32 KiB), and the sums of a tile stay in registers long enough to be worth adding up.
PACE = 512
# Fewer columns than this read g so seldom that it need not be laid out for them.
FEW_COLUMNS = 16
# Columns (taps times channels) of a slice of the weight gradient: more where g is read for many slices (256 channels, 3x3: 5 %).
COLUMNS, MANY_COLUMNS = 72, 2048


class WeightPlan:
    """Tables of a weight gradient: see `convolutions_numba.correlate_weights`. `lay_out` says that g must be laid out as planes."""

    def __init__(
        self, layout: Layout, x: Any, g_strides: Any, groups: int, outer: int, heights: tuple[int, ...]
    ) -> None:
        batch, channels, sizes, strides = x
        inner, size, lanes = channels // groups, layout.size, layout.lanes
        phase = layout.phases[0]
        taps = len(phase.taps)
        places = phase.count[0] * phase.count[1] * phase.count[2]
        self.rows = np.array(blocks_of(outer, heights), np.int64)
        self.work = batch * groups * inner * outer * taps * places
        thickness = min(inner, max(4, (2 if inner * taps >= MANY_COLUMNS else 1) * COLUMNS // taps))
        number = -(-inner // thickness)
        rows, group = phase.count[0], 1
        if places > PACE:
            rows = max(1, min(rows, PACE // (phase.count[1] * phase.count[2])))
        while rows > 1 and layout.bytes_of_rows(rows, thickness) > ROOM_BYTES:
            rows = -(-rows // 2)
        rows = -(-phase.count[0] // -(-phase.count[0] // rows))
        if rows == phase.count[0]:
            group = max(1, min(batch, PACE // places, ROOM_BYTES // max(1, layout.bytes_of_rows(rows, thickness))))
            group = -(-batch // -(-batch // group))
        layout.settle(rows, strides)
        blocks = -(-phase.count[0] // rows)
        pieces = -(-batch // group) * blocks
        self.shares = max(1, min(pieces, -(-ITEMS // (groups * number))))
        columns = thickness * taps + 8
        line = phase.count[1] * (-(-phase.count[2] // lanes) + 1)
        alone, on = layout.vectors(phase)
        along = phase.count[2] < lanes or alone > OVERLAP * on
        self.lay_out = along or g_strides[4] != size or min(g_strides) < 0 or inner * taps > FEW_COLUMNS
        dims = [value for dim in range(3) for value in (0, phase.count[dim], 0)]
        self.order = phase.places
        self.items = self.shares * groups * number
        self.partial = self.items * outer * columns
        self.sizes = (self.shares, groups, number, outer, columns, thickness, inner, taps)
        # planes of g: lines as far apart as those of x that they meet
        step_a, step_b = layout.step_a * layout.jumps[0], layout.step_b * layout.jumps[1]
        if not along:
            step_b = -(-phase.count[2] // lanes) * lanes * size
            step_a = step_b * phase.count[1]
        image = (
            ((rows - 1) * step_a + (phase.count[1] - 1) * step_b + phase.count[2] * size + 7 * lanes * size) // 64 * 64
        )
        plane = group * image + 64  # channels do not lie a power of two apart
        self.pieces = pieces
        self.pitch = groups * outer * plane
        pace = (image, plane, step_a, step_b, self.pitch) if self.lay_out else (*g_strides[:4], 0)
        values = {
            "BATCH": batch, "GROUP": group, "BLOCKS": blocks, "ROWS": rows, "LAST": phase.count[0], "GROUPS": groups,
            "INNER": inner, "OUTER": outer, "ROOM": 1 if layout.direct else group * thickness * layout.plane // size + lanes,
            "VECTORS": group * rows * line,
            "DIRECT": layout.direct, "IMAGE": strides[0] if layout.direct else thickness * layout.plane, "PLANE": layout.plane,
            "STEP_A": layout.step_a, "STEP_B": layout.step_b,
            "X_N": strides[0], "X_C": strides[1], "X_A": strides[2], "X_B": strides[3], "X_W": strides[4],
            "SIZE_A": sizes[0], "SIZE_B": sizes[1], "PAD_A": layout.padding[0], "PAD_B": layout.padding[1],
            "LINE_A": layout.lines[0], "LINE_B": layout.lines[1], "REACH_A": layout.reach[0], "LINES_B": layout.lines_b,
            "JUMP_A": layout.jumps[0], "JUMP_B": layout.jumps[1], "SPLIT": layout.split,
            "SLICES": number, "THICKNESS": thickness, "COLUMN": columns, "SHARES": self.shares,
            # tiles of so many columns run over one block of g before the next: their planes fit the first-level cache beside it
            "TOGETHER": 24 if taps > 4 else 12,
            "PACE_N": pace[0], "PACE_C": pace[1], "PACE_A": pace[2], "PACE_B": pace[3], "PACE_ITEM": pace[4],
        }  # fmt: skip
        phases = [[taps, 0, 0, 0 if along else 1, *dims]]
        # Whether the gaps may count as well: g is laid out with zeros there, and what x has there is finite, or the result tells.
        self.loose = bool(self.lay_out and not layout.direct and (along or phase.count[2] % lanes))
        values["LOOSE"] = self.loose
        self.tables = tables_of(values, phases, (), layout.parts, self.rows, layout.offsets(phase.taps))
        self.strict_tables = self.tables.copy()
        self.strict_tables[head.LOOSE] = 0
        if self.lay_out:
            values = {
                "BATCH": batch, "GROUP": group, "BLOCKS": blocks, "ROWS": rows, "LAST": phase.count[0],
                "INNER": groups * outer, "IMAGE": image, "PLANE": plane, "STEP_A": step_a, "STEP_B": step_b,
                "X_N": g_strides[0], "X_C": g_strides[1], "X_A": g_strides[2], "X_B": g_strides[3], "X_W": g_strides[4],
                "SIZE_A": phase.count[0], "SIZE_B": phase.count[1], "LINE_A": 1, "LINE_B": 1, "REACH_A": 1,
                "LINES_B": phase.count[1], "JUMP_A": 1, "JUMP_B": 1, "SPLIT": 1,
            }  # fmt: skip
            self.g_tables = tables_of(values, parts=[(0, 0, phase.count[2], 0)])
            self.g_elements = pieces * self.pitch // size


@lru_cache(maxsize=512)
def weight_plan(x_shape, x_strides, g_shape, g_strides, kernel, stride, padding, dilation, groups, size, lanes, tiles):
    """The plan of the gradient of the weight (CO, C / groups, *kernel) from x (N, C, D, H, W) and g (N, CO, D', H', W')."""
    layout, x_strides, g_strides, sizes = forward_layout(
        x_shape, x_strides, g_shape, g_strides, kernel, stride, padding, dilation, size, lanes
    )
    x = (x_shape[0], x_shape[1], sizes, x_strides)
    return WeightPlan(layout, x, g_strides, groups, g_shape[1] // groups, tiles)
