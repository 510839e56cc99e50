"""Where the products of a convolution lie in memory: the tables that `convolutions_numba` runs over.

Everything has three spatial dimensions (A, B, W), lines run along W, work is cut along A. A *plane* is one channel of one image with
its padding; with a stride along W, places that are a stride apart lie in one *part* of the plane, side by side. Outputs come in
*phases*: one for a forward pass; for an input gradient one for each remainder of the input's place by the stride, each with
the taps that reach it. Output m of a dimension reads places m * jump + tap of the plane.
"""

from __future__ import annotations

from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np

from dynograd.kernels.conv import convolutions_tables as head
from dynograd.kernels.conv.convolutions_layouts import Layout, backward_phases, cut, forward_phase, sides_of
from dynograd.kernels.conv.convolutions_tables import tables_of

# Products that one tile adds up before the next channels: its weights and its part of the planes then fit the first-level cache.
DEEP = 640
# Vectors that 1x1 kernels take at a time: 24 KiB of 256 channels.
MANY = 4


class Plan:
    """Tables of one convolution: see `convolutions_numba.correlate`."""

    tables: Any
    phases: Any
    taps: Any  # which taps of the kernel the phases have, one after the other
    rows: Any
    items: int
    weights: int  # elements of the packed weights
    work: int  # products

    def __init__(
        self, layout: Layout, x: Any, out: Any, groups: int, outer: int, tiles: Any, take: tuple[int, ...]
    ) -> None:
        """`x` is (batch, channels, sizes, strides in bytes); `out` strides in bytes; `tiles` (heights and widths) and threads."""
        batch, channels, sizes, strides = x
        inner, size, lanes = channels // groups, layout.size, layout.lanes
        live = [phase for phase in layout.phases if not phase.empty]
        self.rows = np.array(blocks_of(outer, tuple(height for height, _ in tiles[0])), np.int64).reshape(-1, 2)
        line = max(phase.count[1] for phase in live) * -(-max(phase.count[2] for phase in live) // lanes)
        self.work = (
            batch * groups * inner * outer * sum(len(p.taps) * p.count[0] * p.count[1] * p.count[2] for p in live)
        )
        taps = max(1, *(len(phase.taps) for phase in live))
        depth = -(-inner // -(-inner * taps // DEEP))
        width = dict(tiles[0])[int(self.rows[0, 1])]
        rows, group = cut(layout, batch, depth, line, width, inner * outer * taps * size, tiles[1])
        layout.settle(rows, strides)
        widths = lcm(*(dict(tiles[0])[height] for height in self.rows[:, 1].tolist()))
        chunk = widths if taps == 1 and widths <= MANY else group * rows * 2 * line
        # Sums that go on with the next channels begin with what the last ones left: vectors must not overlap.
        once = depth == inner
        if layout.direct and not once and not all(layout.straight(phase, out, take[2], once) for phase in live):
            layout.settle(rows, strides, copy=True)
        steps, packed, table, at = [], [], [], 0
        for phase in live:
            offsets = layout.offsets(phase.taps)
            mode = layout.straight(phase, out, take[2], once)
            table.append(
                [len(phase.taps), len(steps), at, mode]
                + [value for dim in range(3) for value in (phase.low[dim], phase.count[dim], phase.at[dim])]
            )
            steps += [c * layout.plane + offset for c in range(depth) for offset in offsets]
            packed += phase.places
            at += groups * outer * inner * len(phase.taps)
        first, last = min(p.low[0] for p in live), max(p.low[0] + p.count[0] for p in live)
        blocks = -(-(last - first) // rows)
        span = layout.span(live, rows)
        lines = len(live) * outer if depth < inner else max(height for _, height in self.rows.tolist())
        scratch = lines * group * span // size
        straight = all(row[head.MODE] for row in table)
        values = {
            "BATCH": batch, "GROUP": group, "BLOCKS": blocks, "ROWS": rows, "FIRST": first, "LAST": last, "GROUPS": groups,
            "INNER": inner, "OUTER": outer, "ROOM": 1 if layout.direct else group * depth * layout.plane // size + lanes,
            "CHUNK": chunk, "DEPTH": depth, "SCRATCH": 1 if straight else scratch, "VECTORS": group * rows * (line + max(p.count[1] for p in live)),
            "DIRECT": layout.direct, "IMAGE": strides[0] if layout.direct else depth * layout.plane, "PLANE": layout.plane,
            "STEP_A": layout.step_a, "STEP_B": layout.step_b, "SPAN": span,
            "X_N": strides[0], "X_C": strides[1], "X_A": strides[2], "X_B": strides[3], "X_W": strides[4],
            "SIZE_A": sizes[0], "SIZE_B": sizes[1], "PAD_A": layout.padding[0], "PAD_B": layout.padding[1],
            "LINE_A": layout.lines[0], "LINE_B": layout.lines[1], "REACH_A": layout.reach[0], "LINES_B": layout.lines_b,
            "JUMP_A": layout.jumps[0], "JUMP_B": layout.jumps[1],
            "TAKE_A": take[0], "TAKE_B": take[1], "TAKE_W": take[2], "SPLIT": layout.split,
            "OUT_N": out[0], "OUT_C": out[1], "OUT_A": out[2], "OUT_B": out[3], "OUT_W": out[4],
        }  # fmt: skip
        self.tables = tables_of(values, table, steps, layout.parts, self.rows)
        self.phases, self.taps = np.array(table, np.int64), np.array(packed or [0], np.int64)
        self.items, self.weights = -(-batch // group) * blocks, max(at, 1)


def blocks_of(outer: int, heights: tuple[int, ...]) -> list[tuple[int, int]]:
    """Output channels in blocks of tile heights: as many of the largest as possible, but 6 + 4 for a last 8 + 2, 4 + 4 for 6 + 2."""
    blocks, left = [], outer
    while left:
        height = next(h for h in heights if h <= left)
        if left == 10 and height == 8:
            height = 6
        if left == 8 and height == 6:
            height = 4
        blocks.append((outer - left, height))
        left -= height
    return blocks


@lru_cache(maxsize=512)
def forward_plan(
    x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, groups, size, lanes, tiles
):
    """The plan of x (N, C, D, H, W) to out (N, CO, D', H', W'); strides in bytes, kernel (kd, kh, kw)."""
    layout, x_strides, out_strides, sizes = forward_layout(
        x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, size, lanes
    )
    x = (x_shape[0], x_shape[1], sizes, x_strides)
    return Plan(layout, x, out_strides, groups, out_shape[1] // groups, tiles, (1, 1, 1))


def forward_layout(x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, size, lanes):
    """The layout of a forward pass, and strides and sizes in the order of its dimensions."""
    x_strides, out_strides, sizes, counts, kernel, stride, padding, dilation, taps = sides_of(
        x_strides, out_strides, tuple(x_shape[2:]), tuple(out_shape[2:]), kernel, stride, padding, dilation
    )
    if max(kernel) == max(stride) == 1 and not any(padding) and counts[2] % lanes:
        # no line needs to begin anew
        if _is_flat(x_strides, sizes, size) and _is_flat(out_strides, counts, size):
            sizes = counts = (1, 1, sizes[0] * sizes[1] * sizes[2])
    phase = forward_phase(counts, dilation, taps)
    return Layout(sizes, [phase], stride, kernel, padding, size, lanes), x_strides, out_strides, sizes


@lru_cache(maxsize=512)
def backward_plan(
    g_shape, g_strides, out_shape, out_strides, kernel, stride, padding, dilation, groups, size, lanes, tiles
):
    """The plan of the input gradient: g (N, CO, D', H', W') to out (N, C, D, H, W)."""
    g_strides, out_strides, sizes, input_sizes, kernel, stride, padding, dilation, taps = sides_of(
        g_strides, out_strides, tuple(g_shape[2:]), tuple(out_shape[2:]), kernel, stride, padding, dilation
    )
    phases, pads = backward_phases(input_sizes, kernel, stride, padding, dilation, taps)
    layout = Layout(sizes, phases, (1, 1, 1), (2, 2, 2), pads, size, lanes)
    x = (g_shape[0], g_shape[1], sizes, g_strides)
    return Plan(layout, x, out_strides, groups, out_shape[1] // groups, tiles, stride)


def _is_flat(strides: Any, sizes: Any, size: int) -> bool:
    return strides[2:] == (sizes[1] * sizes[2] * size, sizes[2] * size, size)
