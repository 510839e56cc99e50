"""Padded planes of images, and which vectors of them hold the outputs of a convolution: see `convolutions_plans` for the tables.

Functions for compiled kernels; `geometry` is the head of a plan's tables.
"""

import numpy as np

from dynograd.kernels import convolutions_plans as plans
from dynograd.kernels.compiling_numba import compiled
from dynograd.kernels.tiles_numba import (
    BYTES,
    copy_halves,
    copy_lines,
    copy_strided,
    plain,
    transpose_lines,
    zero_line,
)

__all__ = ["address_of", "cover", "lay_out", "pair", "take_out"]

# Places in the tables of `convolutions_plans`, as constants of the machine code.
_BATCH, _GROUP, _BLOCKS, _ROWS, _FIRST, _LAST = (
    plans.BATCH,
    plans.GROUP,
    plans.BLOCKS,
    plans.ROWS,
    plans.FIRST,
    plans.LAST,
)
_GROUPS, _INNER, _OUTER, _ROOM, _SCRATCH = plans.GROUPS, plans.INNER, plans.OUTER, plans.ROOM, plans.SCRATCH
_VECTORS, _DIRECT, _IMAGE, _PLANE = plans.VECTORS, plans.DIRECT, plans.IMAGE, plans.PLANE
_STEP_A, _STEP_B, _SPAN = plans.STEP_A, plans.STEP_B, plans.SPAN
_X_N, _X_C, _X_A, _X_B, _X_W = plans.X_N, plans.X_C, plans.X_A, plans.X_B, plans.X_W
_SIZE_A, _SIZE_B, _PAD_A, _PAD_B = plans.SIZE_A, plans.SIZE_B, plans.PAD_A, plans.PAD_B
_LINE_A, _LINE_B, _REACH_A, _LINES_B = plans.LINE_A, plans.LINE_B, plans.REACH_A, plans.LINES_B
_JUMP_A, _JUMP_B, _SPLIT, _DEPTH = plans.JUMP_A, plans.JUMP_B, plans.SPLIT, plans.DEPTH
_LOOSE = plans.LOOSE
_TAKE_A, _TAKE_B, _TAKE_W = plans.TAKE_A, plans.TAKE_B, plans.TAKE_W
_OUT_N, _OUT_C, _OUT_A, _OUT_B, _OUT_W = plans.OUT_N, plans.OUT_C, plans.OUT_A, plans.OUT_B, plans.OUT_W
_TAPS, _TAPS_AT, _WEIGHTS_AT, _MODE = plans.TAPS, plans.TAPS_AT, plans.WEIGHTS_AT, plans.MODE
_LOW_A, _COUNT_A, _AT_A = plans.LOW_A, plans.COUNT_A, plans.AT_A
_LOW_B, _COUNT_B, _AT_B = plans.LOW_B, plans.COUNT_B, plans.AT_B
_LOW_W, _COUNT_W, _AT_W = plans.LOW_W, plans.COUNT_W, plans.AT_W
_PHASES_AT, _PHASES, _STEPS_AT, _PARTS_AT, _PARTS = (
    plans.PHASES_AT,
    plans.PHASES,
    plans.STEPS_AT,
    plans.PARTS_AT,
    plans.PARTS,
)
_ROWS_AT, _HEIGHTS, _OFFSETS_AT, _OFFSETS = plans.ROWS_AT, plans.HEIGHTS, plans.OFFSETS_AT, plans.OFFSETS
_SLICES, _THICKNESS, _COLUMN, _SHARES, _TOGETHER = (
    plans.SLICES,
    plans.THICKNESS,
    plans.COLUMN,
    plans.SHARES,
    plans.TOGETHER,
)
_PACE_N, _PACE_C, _PACE_A, _PACE_B, _PACE_ITEM = plans.PACE_N, plans.PACE_C, plans.PACE_A, plans.PACE_B, plans.PACE_ITEM


@compiled(inline=True)
def address_of(array):
    """Of its first element, as a signed integer (Numba takes a sum of signed and unsigned ones for a float)."""
    return np.int64(array.ctypes.data)


@compiled
def cover(places, targets, images, begin, end, first, phase, geometry, straight, size):
    """Offsets of vectors that hold all outputs of lines begin to end, and of their results; how many.

    `straight`: results go where they belong, and the last vector of a line overlaps the one before. Else vectors run on from line
    to line in the plane, over what lies between lines, and results go to the same places of a scratch plane.
    """
    plain()
    lanes = BYTES // size
    step_a, step_b = geometry[_JUMP_A] * geometry[_STEP_A], geometry[_JUMP_B] * geometry[_STEP_B]
    width = phase[_COUNT_W]
    origin = (begin - first) * step_a + phase[_LOW_B] * step_b + phase[_LOW_W] * size
    span = (end - begin - 1) * step_a + (phase[_COUNT_B] - 1) * step_b + width * size
    v = 0
    for image in range(images):
        covered = 0
        for a in range(end - begin):
            for b in range(phase[_COUNT_B]):
                line = a * step_a + b * step_b
                if straight:
                    result = image * geometry[_OUT_N] + a * geometry[_TAKE_A] * geometry[_OUT_A]
                    result += (phase[_AT_B] + b * geometry[_TAKE_B]) * geometry[_OUT_B] + phase[_AT_W] * geometry[
                        _OUT_W
                    ]
                    for j in range(0, width, lanes):
                        along = min(j, width - lanes) * size
                        places[v] = image * geometry[_IMAGE] + origin + line + along
                        targets[v] = result + along
                        v += 1
                else:
                    at = max(line, covered)
                    while at < line + width * size:
                        if geometry[_DIRECT]:  # no vector may reach beyond x
                            at = min(at, span - BYTES)
                        places[v] = image * geometry[_IMAGE] + origin + at
                        targets[v] = image * geometry[_SPAN] + at
                        v += 1
                        at += BYTES
                    covered = max(at, covered)
    for extra in range(8):
        places[v + extra], targets[v + extra] = places[v - 1], targets[v - 1]
    return v


@compiled
def lay_out(like, room, source, images, channels, first, last, geometry, parts):
    """Planes of some images and channels, with their padding, for outputs of the lines first to last. `room` is zero at first.

    `parts` says for each part of a split line (element where it begins, first place, places, first element of the source).
    """
    plain()
    size = like.itemsize
    jump = geometry[_LINE_A]
    count = (last - first - 1) * geometry[_JUMP_A] + geometry[_REACH_A]
    begin = first * geometry[_JUMP_A] * jump - geometry[_PAD_A]
    low = min(max(0, (jump - 1 - begin) // jump), count)  # lines of x that exist
    high = max(low, min(count, (geometry[_SIZE_A] - begin + jump - 1) // jump))
    if geometry[_BLOCKS] > 1:  # where other items had lines
        for image in range(images):
            for c in range(channels):
                plane = room + image * geometry[_IMAGE] + c * geometry[_PLANE]
                for part in range(parts.shape[0]):
                    to = plane + parts[part, 0] * size
                    zero_line(like, to, low * geometry[_STEP_A] // size)
                    zero_line(like, to + high * geometry[_STEP_A], (count - high) * geometry[_STEP_A] // size)
    turn = geometry[_X_W] != size and geometry[_X_C] == size and channels >= BYTES // size
    for image in range(images):
        for b in range(geometry[_LINES_B]):
            at_b = b * geometry[_LINE_B] - geometry[_PAD_B]
            if not 0 <= at_b < geometry[_SIZE_B]:
                continue  # zero from the start
            come = source + image * geometry[_X_N] + (begin + low * jump) * geometry[_X_A] + at_b * geometry[_X_B]
            to = room + image * geometry[_IMAGE] + low * geometry[_STEP_A] + b * geometry[_STEP_B]
            for part in range(parts.shape[0]):
                width = parts[part, 2]
                target = to + (parts[part, 0] + parts[part, 1]) * size
                origin = come + parts[part, 3] * geometry[_X_W]
                if turn and width >= BYTES // size:
                    _turn(like, target, origin, high - low, channels, width, geometry)
                else:
                    _lay_out_planes(like, target, origin, high - low, channels, width, geometry)


@compiled
def _lay_out_planes(like, target, origin, lines, channels, width, geometry):
    """One part of the lines of some planes, from arrays with any strides."""
    plain()
    size = like.itemsize
    jump, step = geometry[_LINE_A] * geometry[_X_A], geometry[_X_W] * geometry[_SPLIT]
    for c in range(channels):
        to, come = target + c * geometry[_PLANE], origin + c * geometry[_X_C]
        if step == size:
            copy_lines(like, to, geometry[_STEP_A], come, jump, lines, width)
        elif step == 2 * size and width >= BYTES // size:
            for a in range(lines):
                copy_halves(like, to + a * geometry[_STEP_A], come + a * jump, width)
        else:
            for a in range(lines):
                copy_strided(like, to + a * geometry[_STEP_A], size, come + a * jump, step, width)


@compiled
def _turn(like, target, origin, lines, channels, width, geometry):
    """One part of the lines of some planes, from an array whose channels are neighbours."""
    plain()
    size = like.itemsize
    lanes = BYTES // size
    jump, step = geometry[_LINE_A] * geometry[_X_A], geometry[_X_W] * geometry[_SPLIT]
    for a in range(lines):
        to, come = target + a * geometry[_STEP_A], origin + a * jump
        for j in range(0, width, lanes):
            along = min(j, width - lanes)
            for k in range(0, channels, lanes):
                c = min(k, channels - lanes)
                block = to + c * geometry[_PLANE] + along * size
                transpose_lines(like, block, geometry[_PLANE], come + c * size + along * step, step)


@compiled
def take_out(like, scratch, step, result, channel, height, images, begin, end, phase, geometry):
    """Results of `height` channels from their scratch planes to where they belong."""
    plain()
    size = like.itemsize
    lanes = BYTES // size
    step_a, step_b = geometry[_JUMP_A] * geometry[_STEP_A], geometry[_JUMP_B] * geometry[_STEP_B]
    out_step, width = geometry[_OUT_W] * geometry[_TAKE_W], phase[_COUNT_W]
    turn = geometry[_OUT_W] != size and geometry[_OUT_C] == size and height == lanes and width >= lanes
    for image in range(images):
        for a in range(end - begin):
            at = a * geometry[_TAKE_A]
            for b in range(phase[_COUNT_B]):
                come = scratch + image * geometry[_SPAN] + a * step_a + b * step_b
                to = result + channel * geometry[_OUT_C] + image * geometry[_OUT_N] + at * geometry[_OUT_A]
                to += (phase[_AT_B] + b * geometry[_TAKE_B]) * geometry[_OUT_B] + phase[_AT_W] * geometry[_OUT_W]
                if turn:
                    for j in range(0, width, lanes):
                        along = min(j, width - lanes)
                        transpose_lines(like, to + along * out_step, out_step, come + along * size, step)
                elif out_step == size:
                    copy_lines(like, to, geometry[_OUT_C], come, step, height, width)
                else:
                    for c in range(height):
                        copy_strided(like, to + c * geometry[_OUT_C], out_step, come + c * step, size, width)


@compiled
def pair(g_places, x_places, masks, images, first, last, phase, geometry, pace, size):
    """Offsets of vectors of g and of the planes that meet, each output once: those that count in full, then those with a mask."""
    plain()
    lanes = BYTES // size
    step_a, step_b = geometry[_JUMP_A] * geometry[_STEP_A], geometry[_JUMP_B] * geometry[_STEP_B]
    width, along, direct = phase[_COUNT_W], phase[_MODE] != 1, geometry[_DIRECT]
    loose = geometry[_LOOSE] == 1
    span = (last - first - 1) * step_a + (phase[_COUNT_B] - 1) * step_b + width * size
    v = full = 0
    for masked in range(2):
        m = 0
        for image in range(images):
            covered = 0
            for a in range(last - first):
                for b in range(phase[_COUNT_B]):
                    x_line = image * geometry[_IMAGE] + a * step_a + b * step_b
                    g_line = image * pace[0] + a * pace[2] + b * pace[3]
                    if not along:
                        for j in range(0, width, lanes):
                            if (j + lanes > width and not loose) != (masked == 1):
                                continue
                            at = j if loose else min(j, width - lanes)
                            x_places[v], g_places[v] = x_line + at * size, g_line + at * size
                            if masked:
                                for lane in range(lanes):
                                    masks[m * lanes + lane] = 1 if at + lane >= j else 0
                                m += 1
                            v += 1
                    else:
                        line = a * step_a + b * step_b
                        at = max(line, covered)
                        while at < line + width * size:
                            whole = loose or at + BYTES <= line + width * size
                            begin = min(at, span - BYTES) if direct else at
                            if whole != (masked == 1):
                                x_places[v] = image * geometry[_IMAGE] + begin
                                g_places[v] = image * pace[0] + begin
                                if masked:
                                    _mark(masks, m * lanes, begin, at, a, b, last - first, phase, step_a, step_b, size)
                                    m += 1
                                v += 1
                            at += BYTES
                        covered = max(at, covered)
        if not masked:
            full = v
    return full, v


@compiled
def _mark(masks, target, begin, lowest, a, b, count_a, phase, step_a, step_b, size):
    """Which lanes of the vector at `begin` of a plane lie, from `lowest` on, in a line of outputs: line (a, b) or a later one."""
    plain()
    lanes = BYTES // size
    for lane in range(lanes):
        masks[target + lane] = 0
    while a < count_a:
        line = a * step_a + b * step_b
        if line >= begin + BYTES:
            return
        for lane in range(lanes):
            place = begin + lane * size
            if place >= lowest and line <= place < line + phase[_COUNT_W] * size:
                masks[target + lane] = 1
        b += 1
        if b == phase[_COUNT_B]:
            a, b = a + 1, 0
