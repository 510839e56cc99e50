"""Which outputs of a convolution the same taps reach, how the planes that they read lie in memory, and how work is cut.

See `convolutions_plans` for the words.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

# Bytes of the planes of an item: a part of the second-level cache of one core (0.5 to 2 MiB), with room for results and weights.
ROOM_BYTES = 192 << 10
# Overlapping the last vectors of lines costs products, running over the gaps between lines costs a copy of the results.
OVERLAP = 1.15


class Phase:
    """Outputs that are reached by the same taps: per dimension the first m, how many, and where the first one goes."""

    def __init__(self, taps: list[tuple[int, ...]], places: list[int], spans: list[tuple[int, int, int]]) -> None:
        self.taps, self.places = taps, places
        self.low, self.count, self.at = zip(*spans, strict=True)

    @property
    def empty(self) -> bool:
        return min(self.count) <= 0


def sides_of(x_strides, out_strides, sizes, counts, kernel, stride, padding, dilation):
    """The arguments with height first where there is no depth, so that work can be cut along it; and the place of each tap."""
    taps = {tap: index for index, tap in enumerate(product(*map(range, kernel)))}
    if sizes[0] == counts[0] == kernel[0] == 1 and padding[0] == 0:
        turned = [(side[1], side[0], side[2]) for side in (sizes, counts, kernel, stride, padding, dilation)]
        x_strides, out_strides = ((*own[:2], own[3], own[2], own[4]) for own in (x_strides, out_strides))
        return x_strides, out_strides, *turned, {(b, a, w): index for (a, b, w), index in taps.items()}
    return x_strides, out_strides, sizes, counts, kernel, stride, padding, dilation, taps


def forward_phase(counts, dilation, taps):
    """The one phase of a forward pass."""
    reached = [tuple(k * d for k, d in zip(tap, dilation, strict=True)) for tap in taps]
    return Phase(reached, list(taps.values()), [(0, count, 0) for count in counts])


def backward_phases(sizes, kernel, stride, padding, dilation, taps):
    """The phases of an input gradient of `sizes`, and the padding of the planes of g."""
    dims = range(3)
    shift = tuple((kernel[dim] - 1) * dilation[dim] // stride[dim] for dim in dims)
    phases = []
    for rest in product(*map(range, stride)):
        own = [tap for tap in taps if all(tap[dim] * dilation[dim] % stride[dim] == rest[dim] for dim in dims)]
        spans = []
        for dim in dims:
            low = max(0, -((rest[dim] - padding[dim]) // stride[dim]))
            at = low * stride[dim] + rest[dim] - padding[dim]
            spans.append((low, max(0, -(-(sizes[dim] - at) // stride[dim])), at))
        offsets = [tuple(shift[dim] - tap[dim] * dilation[dim] // stride[dim] for dim in dims) for tap in own]
        phases.append((offsets, [taps[tap] for tap in own], spans))
    # planes begin where the first output reads them
    live = [spans for _, _, spans in phases if min(span[1] for span in spans) > 0]
    before = [min(shift[dim], *(spans[dim][0] for spans in live)) for dim in dims]
    moved = [
        Phase(offsets, indices, [(span[0] - before[dim], *span[1:]) for dim, span in enumerate(spans)])
        for offsets, indices, spans in phases
    ]
    return moved, tuple(shift[dim] - before[dim] for dim in dims)


class Layout:
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


def cut(
    layout: Any, batch: int, depth: int, line: int, width: int, weights: int, threads: int, room: int = ROOM_BYTES
) -> tuple[int, int]:
    """Outputs along A, and images, of an item: what fills tiles and threads best. Results do not depend on it."""
    whole = layout.tops[0]
    candidates = [(rows, 1) for rows in range(1, whole)] + [(whole, group) for group in range(1, batch + 1)]
    best, shape = -1.0, (1, 1)
    for rows, group in candidates:
        if layout.bytes_of_rows(rows, group * depth) > room and (rows, group) != (1, 1):
            continue
        items = -(-batch // group) * -(-whole // rows)
        vectors = batch * whole * line / items
        full = vectors / (width * -(-group * rows * line // width))  # products of tiles that are wanted
        busy = items / threads / -(-items // threads)
        laid = rows * layout.jumps[0] / ((rows - 1) * layout.jumps[0] + layout.reach[0])  # lines that are laid out once
        read = vectors / (vectors + (1 if weights > ROOM_BYTES else 0.1))  # weights come from farther away than planes
        score = full * busy * read * (0.9 + 0.1 * laid)
        if score > best + 0.004:
            best, shape = score, (rows, group)
    return shape
