"""Padded planes of images, and which vectors of them hold the outputs of a convolution: see `convolutions_plans` for the tables.

Functions for compiled kernels; `geometry` is the head of a plan's tables.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.conv import convolutions_tables as head
from dynograd.kernels.tiles.tiles_numba import (
    BYTES,
    copy_halves,
    copy_lines,
    copy_strided,
    plain,
    transpose_lines,
    zero_line,
)


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
    step_a, step_b = geometry[head.JUMP_A] * geometry[head.STEP_A], geometry[head.JUMP_B] * geometry[head.STEP_B]
    width = phase[head.COUNT_W]
    origin = (begin - first) * step_a + phase[head.LOW_B] * step_b + phase[head.LOW_W] * size
    span = (end - begin - 1) * step_a + (phase[head.COUNT_B] - 1) * step_b + width * size
    v = 0
    for image in range(images):
        covered = 0
        for a in range(end - begin):
            for b in range(phase[head.COUNT_B]):
                line = a * step_a + b * step_b
                if straight:
                    result = image * geometry[head.OUT_N] + a * geometry[head.TAKE_A] * geometry[head.OUT_A]
                    result += (phase[head.AT_B] + b * geometry[head.TAKE_B]) * geometry[head.OUT_B] + phase[
                        head.AT_W
                    ] * geometry[head.OUT_W]
                    for j in range(0, width, lanes):
                        along = min(j, width - lanes) * size
                        places[v] = image * geometry[head.IMAGE] + origin + line + along
                        targets[v] = result + along
                        v += 1
                else:
                    at = max(line, covered)
                    while at < line + width * size:
                        if geometry[head.DIRECT]:  # no vector may reach beyond x
                            at = min(at, span - BYTES)
                        places[v] = image * geometry[head.IMAGE] + origin + at
                        targets[v] = image * geometry[head.SPAN] + at
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
    jump = geometry[head.LINE_A]
    count = (last - first - 1) * geometry[head.JUMP_A] + geometry[head.REACH_A]
    begin = first * geometry[head.JUMP_A] * jump - geometry[head.PAD_A]
    low = min(max(0, (jump - 1 - begin) // jump), count)  # lines of x that exist
    high = max(low, min(count, (geometry[head.SIZE_A] - begin + jump - 1) // jump))
    if geometry[head.BLOCKS] > 1:  # where other items had lines
        for image in range(images):
            for c in range(channels):
                plane = room + image * geometry[head.IMAGE] + c * geometry[head.PLANE]
                for part in range(parts.shape[0]):
                    to = plane + parts[part, 0] * size
                    zero_line(like, to, low * geometry[head.STEP_A] // size)
                    zero_line(like, to + high * geometry[head.STEP_A], (count - high) * geometry[head.STEP_A] // size)
    turn = geometry[head.X_W] != size and geometry[head.X_C] == size and channels >= BYTES // size
    for image in range(images):
        for b in range(geometry[head.LINES_B]):
            at_b = b * geometry[head.LINE_B] - geometry[head.PAD_B]
            if not 0 <= at_b < geometry[head.SIZE_B]:
                continue  # zero from the start
            come = (
                source
                + image * geometry[head.X_N]
                + (begin + low * jump) * geometry[head.X_A]
                + at_b * geometry[head.X_B]
            )
            to = room + image * geometry[head.IMAGE] + low * geometry[head.STEP_A] + b * geometry[head.STEP_B]
            for part in range(parts.shape[0]):
                width = parts[part, 2]
                target = to + (parts[part, 0] + parts[part, 1]) * size
                origin = come + parts[part, 3] * geometry[head.X_W]
                if geometry[head.TURN]:  # places of all channels, from planes: see `convolutions_point_plans`
                    for a in range(high - low):
                        line, step = origin + a * geometry[head.X_A], geometry[head.STEP_W]
                        turn_in(
                            like, target + a * geometry[head.STEP_A], step, line, geometry[head.X_C],
                            width // geometry[head.INNER], geometry[head.INNER],
                        )  # fmt: skip
                elif turn and width >= BYTES // size:
                    _turn(like, target, origin, high - low, channels, width, geometry)
                else:
                    _lay_out_planes(like, target, origin, high - low, channels, width, geometry)


@compiled
def _lay_out_planes(like, target, origin, lines, channels, width, geometry):
    """One part of the lines of some planes, from arrays with any strides."""
    plain()
    size = like.itemsize
    jump, step = geometry[head.LINE_A] * geometry[head.X_A], geometry[head.X_W] * geometry[head.SPLIT]
    for c in range(channels):
        to, come = target + c * geometry[head.PLANE], origin + c * geometry[head.X_C]
        if step == size:
            copy_lines(like, to, geometry[head.STEP_A], come, jump, lines, width)
        elif step == 2 * size and width >= BYTES // size:
            for a in range(lines):
                copy_halves(like, to + a * geometry[head.STEP_A], come + a * jump, width)
        else:
            for a in range(lines):
                copy_strided(like, to + a * geometry[head.STEP_A], size, come + a * jump, step, width)


@compiled
def _turn(like, target, origin, lines, channels, width, geometry):
    """One part of the lines of some planes, from an array whose channels are neighbours."""
    plain()
    size = like.itemsize
    lanes = BYTES // size
    jump, step = geometry[head.LINE_A] * geometry[head.X_A], geometry[head.X_W] * geometry[head.SPLIT]
    for a in range(lines):
        to, come = target + a * geometry[head.STEP_A], origin + a * jump
        for j in range(0, width, lanes):
            along = min(j, width - lanes)
            for k in range(0, channels, lanes):
                c = min(k, channels - lanes)
                block = to + c * geometry[head.PLANE] + along * size
                transpose_lines(like, block, geometry[head.PLANE], come + c * size + along * step, step)


@compiled
def turn_in(like, target, step, origin, plane, width, channels):
    """A line of `width` places with their channels side by side, `step` apart, from lines of planes that are `plane` apart."""
    plain()
    size = like.itemsize
    lanes = BYTES // size
    if width < lanes or channels < lanes:
        for c in range(channels):
            copy_strided(like, target + c * size, step, origin + c * plane, size, width)
        return
    for k in range(0, channels, lanes):
        c = min(k, channels - lanes)
        for j in range(0, width, lanes):
            along = min(j, width - lanes)
            transpose_lines(like, target + along * step + c * size, step, origin + c * plane + along * size, plane)


@compiled
def turn_out(like, target, step, plane, origin, place, width, channels):
    """The lines of planes from places with their channels side by side, which are `place` apart; `step` between elements of a line."""
    plain()
    size = like.itemsize
    lanes = BYTES // size
    if width < lanes or step != size:
        for c in range(channels):
            copy_strided(like, target + c * plane, step, origin + c * size, place, width)
        return
    for c in range(0, channels, lanes):
        for j in range(0, width, lanes):
            along = min(j, width - lanes)
            transpose_lines(like, target + c * plane + along * size, plane, origin + along * place + c * size, place)


@compiled
def take_out(like, scratch, step, result, channel, height, images, begin, end, phase, geometry):
    """Results of `height` channels from their scratch planes to where they belong."""
    plain()
    size = like.itemsize
    lanes = BYTES // size
    step_a, step_b = geometry[head.JUMP_A] * geometry[head.STEP_A], geometry[head.JUMP_B] * geometry[head.STEP_B]
    out_step, width = geometry[head.OUT_W] * geometry[head.TAKE_W], phase[head.COUNT_W]
    turn = geometry[head.OUT_W] != size and geometry[head.OUT_C] == size and height == lanes and width >= lanes
    for image in range(images):
        for a in range(end - begin):
            at = a * geometry[head.TAKE_A]
            for b in range(phase[head.COUNT_B]):
                come = scratch + image * geometry[head.SPAN] + a * step_a + b * step_b
                to = result + channel * geometry[head.OUT_C] + image * geometry[head.OUT_N] + at * geometry[head.OUT_A]
                to += (phase[head.AT_B] + b * geometry[head.TAKE_B]) * geometry[head.OUT_B] + phase[
                    head.AT_W
                ] * geometry[head.OUT_W]
                if turn:
                    for j in range(0, width, lanes):
                        along = min(j, width - lanes)
                        transpose_lines(like, to + along * out_step, out_step, come + along * size, step)
                elif out_step == size:
                    copy_lines(like, to, geometry[head.OUT_C], come, step, height, width)
                else:
                    for c in range(height):
                        copy_strided(like, to + c * geometry[head.OUT_C], out_step, come + c * step, size, width)


@compiled
def pair(g_places, x_places, masks, images, first, last, phase, geometry, pace, size):
    """Offsets of vectors of g and of the planes that meet, each output once: those that count in full, then those with a mask."""
    plain()
    lanes = BYTES // size
    step_a, step_b = geometry[head.JUMP_A] * geometry[head.STEP_A], geometry[head.JUMP_B] * geometry[head.STEP_B]
    width, along, direct = phase[head.COUNT_W], phase[head.MODE] != 1, geometry[head.DIRECT]
    loose = geometry[head.LOOSE] == 1
    span = (last - first - 1) * step_a + (phase[head.COUNT_B] - 1) * step_b + width * size
    v = full = 0
    for masked in range(2):
        m = 0
        for image in range(images):
            covered = 0
            for a in range(last - first):
                for b in range(phase[head.COUNT_B]):
                    x_line = image * geometry[head.IMAGE] + a * step_a + b * step_b
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
                                x_places[v] = image * geometry[head.IMAGE] + begin
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
            if place >= lowest and line <= place < line + phase[head.COUNT_W] * size:
                masks[target + lane] = 1
        b += 1
        if b == phase[head.COUNT_B]:
            a, b = a + 1, 0
