"""The tables of convolutions of channels_last arrays, over which `convolutions_points_numba` runs: see `convolutions_plans`.

Here a place of a plane holds all channels, so that there is one plane an image, no line is split, and neighbouring taps
of a line are one run of elements. Output channels come in blocks of one vector; the last block overlaps the one before where
channels are left over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from dynograd.kernels.conv.convolutions_layouts import Phase, backward_phases, cut, forward_phase, sides_of
from dynograd.kernels.conv.convolutions_tables import tables_of

# Bytes of the planes of an item: half of the second-level cache of one core (0.5 to 2 MiB).
ROOM_BYTES = 384 << 10
# Places that the weight gradient takes at a time: their vectors of g (32 KiB) stay near, and sums long enough in registers;
# fewer where planes are deep and would leave the second-level cache.
PACE, PACE_BYTES = 512, 256 << 10
# Items of a weight gradient: enough for some threads, few enough to be added up. More where sums take less than an eighth of
# the bytes of x and g.
ITEMS, MANY_ITEMS = 8, 16
# Bytes of the sums of an item: blocks of output channels that are computed from the same planes, while these are in cache.
SUM_BYTES = 96 << 10


class _Points:
    """How planes of all channels lie in memory."""

    def __init__(self, sizes, strides, phases, jumps, padding, channels, size, points):
        self.sizes, self.strides, self.jumps, self.padding = sizes, strides, jumps, padding
        self.channels, self.size, self.points = channels, size, points
        self.live = [phase for phase in phases if not phase.empty]
        every = [tap for phase in self.live for tap in phase.taps] or [(0, 0, 0)]
        self.tops = tuple(max(phase.low[dim] + phase.count[dim] for phase in self.live) for dim in range(3))
        self.reach = tuple(max(tap[dim] for tap in every) + 1 for dim in range(3))
        read = [(self.tops[dim] - 1) * jumps[dim] + self.reach[dim] for dim in range(3)]
        self.lines_b, self.wide = read[1:]
        self.step_w = channels * size
        # x itself serves where all places are in it, with their channels side by side
        inside = not any(padding) and all(most <= own for most, own in zip(read, sizes, strict=True))
        self.turn = strides[1] != size
        self.direct = inside and not self.turn
        self.step_a, self.step_b = self.lines_b * self.wide * self.step_w, self.wide * self.step_w
        if self.direct:
            self.step_a, self.step_b = strides[2:4]

    def lines_of_rows(self, rows: int) -> int:
        return (rows - 1) * self.jumps[0] + self.reach[0]

    def bytes_of_rows(self, rows: int, channels: int) -> int:
        return channels * self.lines_of_rows(rows) * self.lines_b * self.wide * self.size

    def runs(self, phase: Phase) -> tuple[int, list[int], list[int]]:
        """How many taps lie side by side in each run, where in a plane each run begins, and the places of the taps in the weight."""
        ordered = sorted(zip(phase.taps, phase.places, strict=True))
        runs: list[list[tuple[int, ...]]] = []
        for tap, _ in ordered:
            if runs and tap == (*runs[-1][-1][:2], runs[-1][-1][2] + 1):
                runs[-1].append(tap)
            else:
                runs.append([tap])
        if len({len(run) for run in runs}) > 1:
            runs = [[tap] for tap, _ in ordered]
        begins = [a * self.step_a + b * self.step_b + w * self.step_w for a, b, w in (run[0] for run in runs)]
        return len(runs[0]) if runs else 1, begins, [place for _, place in ordered]

    def values(self, batch: int, group: int, rows: int, out: tuple[int, ...], take: tuple[int, ...]) -> dict[str, int]:
        """The numbers of the tables."""
        first = min(phase.low[0] for phase in self.live)
        last = max(phase.low[0] + phase.count[0] for phase in self.live)
        image = self.strides[0] if self.direct else self.lines_of_rows(rows) * self.step_a
        most = max(phase.count[1] * phase.count[2] for phase in self.live)
        return {
            "BATCH": batch, "GROUP": group, "BLOCKS": -(-(last - first) // rows), "ROWS": rows, "FIRST": first, "LAST": last,
            "INNER": self.channels, "VECTORS": group * rows * most + self.points, "DIRECT": int(self.direct), "IMAGE": image,
            "ROOM": 1 if self.direct else group * image // self.size + self.points,
            "STEP_A": self.step_a, "STEP_B": self.step_b, "STEP_W": self.step_w,
            "X_N": self.strides[0], "X_A": self.strides[2], "X_B": self.strides[3], "X_W": self.size,
            "X_C": self.strides[1], "TURN": int(self.turn),
            "SIZE_A": self.sizes[0], "SIZE_B": self.sizes[1], "PAD_A": self.padding[0], "PAD_B": self.padding[1],
            "LINE_A": 1, "LINE_B": 1, "REACH_A": self.reach[0], "LINES_B": self.lines_b, "SPLIT": 1,
            "JUMP_A": self.jumps[0], "JUMP_B": self.jumps[1], "JUMP_W": self.jumps[2],
            "TAKE_A": take[0], "TAKE_B": take[1], "TAKE_W": take[2],
            "OUT_N": out[0], "OUT_C": out[1], "OUT_A": out[2], "OUT_B": out[3], "OUT_W": out[4],
        }  # fmt: skip

    def part(self) -> tuple[int, int, int, int]:
        """What of a line of x goes where in a line of a plane, in elements."""
        count = max(0, min(self.sizes[2], self.wide - self.padding[2]))
        return 0, self.padding[2] * self.channels, count * self.channels, 0


class PointPlan:
    """Tables of one convolution: see `convolutions_points_numba.correlate_points`."""

    def __init__(self, layout: _Points, batch: int, out: Any, outer: int, lanes: int, threads: int, take: Any) -> None:
        inner, live = layout.channels, layout.live
        taps = max(1, *(len(phase.taps) for phase in live))
        line = max(phase.count[1] * phase.count[2] for phase in live)
        weights = inner * outer * taps * layout.size
        rows, group = cut(layout, batch, inner, line, layout.points, weights, threads, ROOM_BYTES)
        self.blocks = np.array(_blocks(outer, lanes), np.int64)
        table, runs, places, at = [], [], [], 0
        for phase in live:
            together, begins, order = layout.runs(phase)
            dims = [value for dim in range(3) for value in (phase.low[dim], phase.count[dim], phase.at[dim])]
            table.append([len(order), len(runs), at, together, *dims])
            runs += begins
            places += order
            at += len(order) * inner * lanes * len(self.blocks)
        values = layout.values(batch, group, rows, out, take)
        self.tables = tables_of(values, table, runs, [layout.part()], self.blocks)
        self.phases, self.taps = np.array(table, np.int64), np.array(places or [0], np.int64)
        self.items, self.weights = -(-batch // group) * values["BLOCKS"], max(at, 1)
        self.work = batch * inner * outer * sum(len(p.taps) * p.count[0] * p.count[1] * p.count[2] for p in live)


class PointWeightPlan:
    """Tables of a weight gradient: see `convolutions_points_numba.correlate_weight_points`."""

    def __init__(self, layout: _Points, batch: int, g_strides: Any, outer: int, lanes: int) -> None:
        phase, inner, points = layout.live[0], layout.channels, layout.points
        places = phase.count[1] * phase.count[2]
        pace = min(PACE, PACE_BYTES // (inner * layout.size))
        rows = max(1, min(phase.count[0], pace // places))
        rows = -(-phase.count[0] // -(-phase.count[0] // rows))
        group = max(1, min(batch, pace // (rows * places))) if rows == phase.count[0] else 1
        self.blocks = np.array(_blocks(outer, lanes), np.int64)
        pieces = -(-batch // group) * -(-phase.count[0] // rows)
        together, begins, order = layout.runs(phase)
        length = together * inner
        # tiles of a run; the last overlaps the one before, whose rows count
        starts = [max(0, min(at, length - points)) for at in range(0, length, points)]
        offsets = [begin + start * layout.size for begin in begins for start in starts]
        self.rows = np.full((len(begins), len(starts), points), -1, np.int64)
        for run in range(len(begins)):
            for tile, start in enumerate(starts):
                for row in range(tile * points - start, min(points, length - start)):
                    tap, channel = divmod(start + row, inner)
                    self.rows[run, tile, row] = channel * len(order) + order[run * together + tap]
        self.rows = self.rows.reshape(-1)
        dims = [value for dim in range(3) for value in (0, phase.count[dim], 0)]
        sums = self.rows.size * lanes * layout.size
        together = max(1, min(len(self.blocks), SUM_BYTES // sums))
        slices = -(-len(self.blocks) // together)
        read = batch * phase.count[0] * places * (inner + outer) * layout.size
        items = max(ITEMS, min(MANY_ITEMS, slices * (read // (8 * sums * len(self.blocks)))))
        self.shares = max(1, min(pieces, -(-items // slices)))
        values = layout.values(batch, group, rows, g_strides, (1, 1, 1))
        values |= {"SHARES": self.shares, "TOGETHER": together, "SLICES": slices}
        self.tables = tables_of(values, [[0, 0, 0, 0, *dims]], (), [layout.part()], self.blocks, offsets)
        self.items = self.shares * slices
        self.partial = self.shares * len(self.blocks) * self.rows.size * lanes
        self.work = batch * inner * outer * len(order) * phase.count[0] * places


def _blocks(outer: int, lanes: int) -> list[int]:
    """The first channels of vectors that cover all."""
    return [min(first, outer - lanes) for first in range(0, outer, lanes)]


@lru_cache(maxsize=512)
def forward_points(
    x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, size, lanes, points, threads
):
    """The plan of x (N, C, D, H, W) to out (N, CO, D', H', W'); strides in bytes, kernel (kd, kh, kw)."""
    layout, out_strides = _forward(
        x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, size, points
    )
    return PointPlan(layout, x_shape[0], out_strides, out_shape[1], lanes, threads, (1, 1, 1))


@lru_cache(maxsize=512)
def backward_points(
    g_shape, g_strides, out_shape, out_strides, kernel, stride, padding, dilation, size, lanes, points, threads
):
    """The plan of the input gradient: g (N, CO, D', H', W') to out (N, C, D, H, W)."""
    g_strides, out_strides, sizes, input_sizes, kernel, stride, padding, dilation, taps = sides_of(
        g_strides, out_strides, tuple(g_shape[2:]), tuple(out_shape[2:]), kernel, stride, padding, dilation
    )
    phases, pads = backward_phases(input_sizes, kernel, stride, padding, dilation, taps)
    layout = _Points(sizes, g_strides, phases, (1, 1, 1), pads, g_shape[1], size, points)
    return PointPlan(layout, g_shape[0], out_strides, out_shape[1], lanes, threads, stride)


@lru_cache(maxsize=512)
def weight_points(x_shape, x_strides, g_shape, g_strides, kernel, stride, padding, dilation, size, lanes, points):
    """The plan of the gradient of the weight (CO, C, *kernel) from x (N, C, D, H, W) and g (N, CO, D', H', W')."""
    layout, g_strides = _forward(
        x_shape, x_strides, g_shape, g_strides, kernel, stride, padding, dilation, size, points
    )
    return PointWeightPlan(layout, x_shape[0], g_strides, g_shape[1], lanes)


def _forward(x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, size, points):
    x_strides, out_strides, sizes, counts, kernel, stride, padding, dilation, taps = sides_of(
        x_strides, out_strides, tuple(x_shape[2:]), tuple(out_shape[2:]), kernel, stride, padding, dilation
    )
    phase = forward_phase(counts, dilation, taps)
    layout = _Points(sizes, x_strides, [phase], stride, padding, x_shape[1], size, points)
    return layout, out_strides
