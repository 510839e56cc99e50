"""Where the products of a convolution lie in memory: the tables that `convolutions_numba` runs over.

Everything has three spatial dimensions (A, B, W), lines run along W, work is cut along A. A *plane* is one channel of one image with
its padding; with a stride along W, places that are a stride apart lie in one *part* of the plane, side by side. Outputs come in
*phases*: one for a forward pass; for an input gradient one for each remainder of the input's place by the stride, each with
the taps that reach it. Output m of a dimension reads places m * jump + tap of the plane.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import lcm
from typing import Any

import numpy as np

__all__ = ["Plan", "backward_plan", "forward_plan", "weight_plan"]

# Products that one tile adds up before the next channels: its weights and its part of the planes then fit the first-level cache.
DEEP = 640
# Vectors that 1x1 kernels take at a time: 24 KiB of 256 channels.
MANY = 4
# Bytes of the planes of an item: a part of the second-level cache of one core (0.5 to 2 MiB), with room for results and weights.
ROOM_BYTES = 192 << 10
# Items of a weight gradient: enough for some threads, few enough to be added up.
ITEMS = 16
# Overlapping the last vectors of lines costs products, running over the gaps between lines costs a copy of the results.
OVERLAP = 1.15
# Places of g that the weight gradient takes at a time: lines of g and planes of x of a few tiles then fit the first-level cache
# (32 KiB), and the sums of a tile stay in registers long enough to be worth adding up.
PACE = 512
# Fewer columns than this read g so seldom that it need not be laid out for them.
FEW_COLUMNS = 16
# Columns (taps times channels) of a slice of the weight gradient: more where g is read for many slices (256 channels, 3x3: 5 %).
COLUMNS, MANY_COLUMNS = 72, 2048

_geometry_names = """BATCH GROUP BLOCKS ROWS FIRST LAST GROUPS INNER OUTER ROOM SCRATCH VECTORS DIRECT IMAGE PLANE STEP_A STEP_B SPAN
X_N X_C X_A X_B X_W SIZE_A SIZE_B PAD_A PAD_B LINE_A LINE_B REACH_A LINES_B JUMP_A JUMP_B TAKE_A TAKE_B TAKE_W SPLIT
DEPTH OUT_N OUT_C OUT_A OUT_B OUT_W
PHASES_AT PHASES STEPS_AT PARTS_AT PARTS ROWS_AT HEIGHTS OFFSETS_AT OFFSETS
SLICES THICKNESS COLUMN SHARES TOGETHER PACE_N PACE_C PACE_A PACE_B PACE_ITEM CHUNK LOOSE""".split()
_phase_names = "TAPS TAPS_AT WEIGHTS_AT MODE LOW_A COUNT_A AT_A LOW_B COUNT_B AT_B LOW_W COUNT_W AT_W".split()
(BATCH, GROUP, BLOCKS, ROWS, FIRST, LAST, GROUPS, INNER, OUTER, ROOM, SCRATCH, VECTORS, DIRECT, IMAGE, PLANE, STEP_A, STEP_B, SPAN,
 X_N, X_C, X_A, X_B, X_W, SIZE_A, SIZE_B, PAD_A, PAD_B, LINE_A, LINE_B, REACH_A, LINES_B, JUMP_A, JUMP_B, TAKE_A, TAKE_B, TAKE_W,
 SPLIT, DEPTH, OUT_N, OUT_C, OUT_A, OUT_B, OUT_W, PHASES_AT, PHASES, STEPS_AT, PARTS_AT, PARTS, ROWS_AT,
 HEIGHTS, OFFSETS_AT, OFFSETS,
 SLICES, THICKNESS, COLUMN, SHARES, TOGETHER, PACE_N, PACE_C, PACE_A, PACE_B, PACE_ITEM, CHUNK, LOOSE) = range(len(_geometry_names))  # fmt: skip
TAPS, TAPS_AT, WEIGHTS_AT, MODE, LOW_A, COUNT_A, AT_A, LOW_B, COUNT_B, AT_B, LOW_W, COUNT_W, AT_W = range(13)


def _tables(
    values: dict[str, int], phases: Any = (), steps: Any = (), parts: Any = (), rows: Any = (), offsets: Any = ()
) -> Any:
    """All tables of a plan in one flat array: first `values` in the order of the names above, then the tables."""
    values = dict.fromkeys(_geometry_names, 0) | values
    values |= {"PHASES": len(phases), "PARTS": len(parts), "HEIGHTS": len(rows), "OFFSETS": len(offsets)}
    at, tail = len(_geometry_names), []
    for name, table in (("PHASES", phases), ("STEPS", steps), ("PARTS", parts), ("ROWS", rows), ("OFFSETS", offsets)):
        flat = np.asarray(table, np.int64).reshape(-1)
        values[f"{name}_AT"] = at
        at += flat.size
        tail.append(flat)
    return np.concatenate([np.array([values[name] for name in _geometry_names], np.int64), *tail])


class Phase:
    """Outputs that are reached by the same taps: per dimension the first m, how many, and where the first one goes."""

    def __init__(self, taps: list[tuple[int, ...]], places: list[int], spans: list[tuple[int, int, int]]) -> None:
        self.taps, self.places = taps, places
        self.low, self.count, self.at = zip(*spans, strict=True)

    @property
    def empty(self) -> bool:
        return min(self.count) <= 0


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
        self, layout: _Layout, x: Any, out: Any, groups: int, outer: int, tiles: Any, take: tuple[int, ...]
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
        rows, group = _cut(layout, batch, depth, line, width, inner * outer * taps * size, tiles[1])
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
        straight = all(row[MODE] for row in table)
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
        self.tables = _tables(values, table, steps, layout.parts, self.rows)
        self.phases, self.taps = np.array(table, np.int64), np.array(packed or [0], np.int64)
        self.items, self.weights = -(-batch // group) * blocks, max(at, 1)


class _Layout:
    """How planes lie in memory."""

    def __init__(self, sizes, phases, stride, kernel, padding, size, lanes):
        self.sizes, self.phases, self.padding, self.size, self.lanes = sizes, phases, padding, size, lanes
        # Where a dimension has one tap only the lines that are read are laid out.
        self.lines = tuple(stride[dim] if kernel[dim] == 1 else 1 for dim in range(2))
        self.jumps = tuple(1 if kernel[dim] == 1 else stride[dim] for dim in range(2))
        self.split = stride[2]
        live = [phase for phase in phases if not phase.empty]
        every = [tap for phase in live for tap in phase.taps] or [(0, 0, 0)]
        self.tops = tuple(max(phase.low[dim] + phase.count[dim] for phase in live) for dim in range(3))
        self.reach = tuple(max(tap[dim] for tap in every) + 1 for dim in range(2))
        self.lines_b = (self.tops[1] - 1) * self.jumps[1] + self.reach[1]
        self.wide = self.tops[2] + max(tap[2] // self.split for tap in every)
        self.used = sorted({tap[2] % self.split for tap in every})
        if self.split == 1:  # the padding before a line is also the padding after the line above it
            self.pitch = sizes[2] + max(padding[2], self.wide - padding[2] - sizes[2], 0)
        else:
            self.pitch = self.wide
        self.direct = 0

    def bytes_of_rows(self, rows: int, channels: int) -> int:
        lines = (rows - 1) * self.jumps[0] + self.reach[0]
        return channels * len(self.used) * lines * self.lines_b * self.pitch * self.size

    def settle(self, rows: int, strides: tuple[int, ...], copy: bool = False) -> None:
        """Fixes the plane for `rows` outputs along A; x itself serves where it has all places and its lines lie well."""
        read = [(self.tops[dim] - 1) * self.jumps[dim] * self.lines[dim] + self.reach[dim] for dim in range(2)]
        inside = (
            not any(self.padding)
            and self.wide <= self.sizes[2]
            and all(last <= size for last, size in zip(read, self.sizes[:2], strict=True))
        )
        close = (
            strides[2] <= 2 * self.sizes[1] * self.sizes[2] * self.size and strides[3] <= 2 * self.sizes[2] * self.size
        )
        narrow = (
            min(phase.count[2] for phase in self.phases if not phase.empty) < self.lanes
        )  # vectors would reach beyond x
        flat = not narrow and strides[4] == self.size and min(strides[:4]) >= 0
        self.direct = 0
        if inside and close and flat and self.split == 1 and not copy:
            self.direct, self.plane = 1, strides[1]
            self.step_a, self.step_b, self.part = strides[2] * self.lines[0], strides[3] * self.lines[1], 0
            self.parts = np.zeros((1, 4), np.int64)
            return
        lines = (rows - 1) * self.jumps[0] + self.reach[0]
        self.part = lines * self.lines_b * self.pitch + self.padding[2] + self.lanes
        self.plane = len(self.used) * self.part * self.size
        self.step_b = self.pitch * self.size
        self.step_a = self.lines_b * self.step_b
        parts = []
        for slot, remainder in enumerate(self.used):
            begin = max(0, -((remainder - self.padding[2]) // self.split))
            source = begin * self.split + remainder - self.padding[2]
            count = max(0, -(-(self.sizes[2] - source) // self.split))
            parts.append((slot * self.part, begin, max(0, min(count, self.pitch - begin)), source))
        if self.split == 1:
            parts = [(0, self.padding[2], self.sizes[2], 0)]
        self.parts = np.array(parts, np.int64)

    def offsets(self, taps: list[tuple[int, ...]]) -> list[int]:
        slots = {remainder: slot for slot, remainder in enumerate(self.used)}
        return [
            a * self.step_a + b * self.step_b + (slots[w % self.split] * self.part + w // self.split) * self.size
            for a, b, w in taps
        ]

    def vectors(self, phase: Phase) -> tuple[int, int]:
        """How many vectors hold the outputs of a phase: each line alone, and running on from line to line."""
        lines, width = phase.count[0] * phase.count[1], phase.count[2]
        alone = lines * -(-width // self.lanes)
        step = (self.step_b * self.jumps[1] if phase.count[1] > 1 else self.step_a * self.jumps[0]) // self.size
        return alone, min(alone, -(-((lines - 1) * step + width) // self.lanes))

    def straight(self, phase: Phase, out: tuple[int, ...], take: int, overlap: bool) -> int:
        """Whether results go where they belong, line by line."""
        if out[4] * take != self.size or phase.count[2] < self.lanes or not phase.taps:
            return 0
        if phase.count[2] % self.lanes and not overlap:
            return 0
        alone, on = self.vectors(phase)
        return int(alone <= OVERLAP * on)

    def span(self, live: list[Phase], rows: int) -> int:
        """Bytes of a scratch plane."""
        most = 0
        for phase in live:
            lines = (min(rows, phase.count[0]) - 1) * self.jumps[0] * self.step_a
            most = max(most, lines + (phase.count[1] - 1) * self.jumps[1] * self.step_b + phase.count[2] * self.size)
        return most + self.lanes * self.size


def blocks_of(outer: int, heights: tuple[int, ...]) -> list[tuple[int, int]]:
    """Output channels in blocks of tile heights: as many of the largest as possible, but 6 + 4 for a last 8 + 2, 4 + 4 for 6 + 2."""
    found, left = [], outer
    while left:
        height = next(h for h in heights if h <= left)
        if left == 10 and height == 8:
            height = 6
        if left == 8 and height == 6:
            height = 4
        found.append((outer - left, height))
        left -= height
    return found


def _cut(layout: _Layout, batch: int, depth: int, line: int, width: int, weights: int, threads: int) -> tuple[int, int]:
    """Outputs along A, and images, of an item: what fills tiles and threads best. Results do not depend on it."""
    whole = layout.tops[0]
    candidates = [(rows, 1) for rows in range(1, whole)] + [(whole, group) for group in range(1, batch + 1)]
    best, found = -1.0, (1, 1)
    for rows, group in candidates:
        if layout.bytes_of_rows(rows, group * depth) > ROOM_BYTES and (rows, group) != (1, 1):
            continue
        items = -(-batch // group) * -(-whole // rows)
        vectors = batch * whole * line / items
        full = vectors / (width * -(-group * rows * line // width))  # products of tiles that are wanted
        busy = items / threads / -(-items // threads)
        laid = rows * layout.jumps[0] / ((rows - 1) * layout.jumps[0] + layout.reach[0])  # lines that are laid out once
        read = vectors / (vectors + (1 if weights > ROOM_BYTES else 0.1))  # weights come from farther away than planes
        score = full * busy * read * (0.9 + 0.1 * laid)
        if score > best + 0.004:
            best, found = score, (rows, group)
    return found


def _reorder(*triples: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Height first where there is no depth, so that work can be cut along it."""
    return [(triple[1], triple[0], triple[2]) for triple in triples]


def _spatial(sizes: Any, kernel: Any, padding: Any) -> bool:
    return sizes[0] == 1 and kernel[0] == 1 and padding[0] == 0


def _is_flat(strides: Any, sizes: Any, size: int) -> bool:
    return strides[2:] == (sizes[1] * sizes[2] * size, sizes[2] * size, size)


@lru_cache(maxsize=512)
def forward_plan(
    x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, groups, size, lanes, tiles
):
    """The plan of x (N, C, D, H, W) to out (N, CO, D', H', W'); strides in bytes, kernel (kd, kh, kw)."""
    layout, x_strides, out_strides, sizes = _forward_layout(
        x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, size, lanes
    )
    x = (x_shape[0], x_shape[1], sizes, x_strides)
    return Plan(layout, x, out_strides, groups, out_shape[1] // groups, tiles, (1, 1, 1))


def _forward_layout(x_shape, x_strides, out_shape, out_strides, kernel, stride, padding, dilation, size, lanes):
    sizes, counts = tuple(x_shape[2:]), tuple(out_shape[2:])
    places = {tap: index for index, tap in enumerate(product(*map(range, kernel)))}
    if _spatial(sizes, kernel, padding):
        x_strides, out_strides = (
            (*x_strides[:2], *_reorder(x_strides[2:])[0]),
            (*out_strides[:2], *_reorder(out_strides[2:])[0]),
        )
        sizes, counts, kernel, stride, padding, dilation = _reorder(sizes, counts, kernel, stride, padding, dilation)
        places = {_reorder(tap)[0]: index for tap, index in places.items()}
    if max(kernel) == max(stride) == 1 and not any(padding) and counts[2] % lanes:
        # no line needs to begin anew
        if _is_flat(x_strides, sizes, size) and _is_flat(out_strides, counts, size):
            sizes = counts = (1, 1, sizes[0] * sizes[1] * sizes[2])
    taps = list(product(*map(range, kernel)))
    phase = Phase(
        [tuple(k * d for k, d in zip(tap, dilation, strict=True)) for tap in taps],
        [places[tap] for tap in taps],
        [(0, count, 0) for count in counts],
    )
    return _Layout(sizes, [phase], stride, kernel, padding, size, lanes), x_strides, out_strides, sizes


@lru_cache(maxsize=512)
def backward_plan(
    g_shape, g_strides, out_shape, out_strides, kernel, stride, padding, dilation, groups, size, lanes, tiles
):
    """The plan of the input gradient: g (N, CO, D', H', W') to out (N, C, D, H, W)."""
    sizes, wanted = tuple(g_shape[2:]), tuple(out_shape[2:])
    places = {tap: index for index, tap in enumerate(product(*map(range, kernel)))}
    if _spatial(sizes, kernel, padding) and wanted[0] == 1:
        g_strides, out_strides = (
            (*g_strides[:2], *_reorder(g_strides[2:])[0]),
            (*out_strides[:2], *_reorder(out_strides[2:])[0]),
        )
        sizes, wanted, kernel, stride, padding, dilation = _reorder(sizes, wanted, kernel, stride, padding, dilation)
        places = {_reorder(tap)[0]: index for tap, index in places.items()}
    dims = range(3)
    shift = tuple((kernel[dim] - 1) * dilation[dim] // stride[dim] for dim in dims)
    phases = []
    for rest in product(*map(range, stride)):
        taps = [
            tap
            for tap in product(*map(range, kernel))
            if all(tap[dim] * dilation[dim] % stride[dim] == rest[dim] for dim in dims)
        ]
        spans = []
        for dim in dims:
            low = max(0, -((rest[dim] - padding[dim]) // stride[dim]))
            at = low * stride[dim] + rest[dim] - padding[dim]
            spans.append((low, max(0, -(-(wanted[dim] - at) // stride[dim])), at))
        offsets = [tuple(shift[dim] - tap[dim] * dilation[dim] // stride[dim] for dim in dims) for tap in taps]
        phases.append((offsets, [places[tap] for tap in taps], spans))
    # planes begin where the first output reads them
    live = [spans for _, _, spans in phases if min(span[1] for span in spans) > 0]
    before = [min(shift[dim], *(spans[dim][0] for spans in live)) for dim in dims]
    moved = [
        Phase(offsets, indices, [(span[0] - before[dim], *span[1:]) for dim, span in enumerate(spans)])
        for offsets, indices, spans in phases
    ]
    pads = tuple(shift[dim] - before[dim] for dim in dims)
    layout = _Layout(sizes, moved, (1, 1, 1), (2, 2, 2), pads, size, lanes)
    x = (g_shape[0], g_shape[1], sizes, g_strides)
    return Plan(layout, x, out_strides, groups, out_shape[1] // groups, tiles, stride)


class WeightPlan:
    """Tables of a weight gradient: see `convolutions_numba.correlate_weights`. `lay_out` says that g must be laid out as planes."""

    def __init__(
        self, layout: _Layout, x: Any, g_strides: Any, groups: int, outer: int, heights: tuple[int, ...]
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
        self.tables = _tables(values, phases, (), layout.parts, self.rows, layout.offsets(phase.taps))
        self.strict_tables = self.tables.copy()
        self.strict_tables[LOOSE] = 0
        if self.lay_out:
            values = {
                "BATCH": batch, "GROUP": group, "BLOCKS": blocks, "ROWS": rows, "LAST": phase.count[0],
                "INNER": groups * outer, "IMAGE": image, "PLANE": plane, "STEP_A": step_a, "STEP_B": step_b,
                "X_N": g_strides[0], "X_C": g_strides[1], "X_A": g_strides[2], "X_B": g_strides[3], "X_W": g_strides[4],
                "SIZE_A": phase.count[0], "SIZE_B": phase.count[1], "LINE_A": 1, "LINE_B": 1, "REACH_A": 1,
                "LINES_B": phase.count[1], "JUMP_A": 1, "JUMP_B": 1, "SPLIT": 1,
            }  # fmt: skip
            self.g_tables = _tables(values, parts=[(0, 0, phase.count[2], 0)])
            self.g_elements = pieces * self.pitch // size


@lru_cache(maxsize=512)
def weight_plan(x_shape, x_strides, g_shape, g_strides, kernel, stride, padding, dilation, groups, size, lanes, tiles):
    """The plan of the gradient of the weight (CO, C / groups, *kernel) from x (N, C, D, H, W) and g (N, CO, D', H', W')."""
    layout, x_strides, g_strides, sizes = _forward_layout(
        x_shape, x_strides, g_shape, g_strides, kernel, stride, padding, dilation, size, lanes
    )
    x = (x_shape[0], x_shape[1], sizes, x_strides)
    return WeightPlan(layout, x, g_strides, groups, g_shape[1] // groups, tiles)
