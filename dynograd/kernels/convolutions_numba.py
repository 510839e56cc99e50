"""Compiled kernels of convolution: images are laid out as padded planes, and register tiles run over them. See `convolutions_plans`.

No patches are laid out as columns: a vector of neighbouring outputs of a line is, for each kernel tap, the product of one weight
with a vector of the padded plane, at an offset that a table holds. Padding, dilation, groups, strides (a plane is split so that
places a stride apart become neighbours) and the number of dimensions are all in tables and offsets; so are the input gradients.
Every output is summed in one order, whatever the batch and the number of threads.
"""

import numpy as np

from dynograd.kernels import convolutions_plans as plans
from dynograd.kernels import tiles_numba
from dynograd.kernels.compiling_numba import chunked, compiled
from dynograd.kernels.tiles_numba import BYTES, copy_halves, copy_lines, copy_strided, transpose_lines, zero_line

__all__ = ["add_partials", "correlate", "correlate_weights", "pack_weights", "planes"]

_KEY = f"{BYTES} {tiles_numba.PRODUCT_TILES} {tiles_numba.DOT_TILES}"

_product_8 = tiles_numba.product_tile(8) if 8 in tiles_numba.PRODUCT_TILES else tiles_numba.product_tile(6)
_product_6, _product_4, _product_2, _product_1 = (tiles_numba.product_tile(rows) for rows in (6, 4, 2, 1))
_dot_6 = tiles_numba.dot_tile(6) if 6 in tiles_numba.DOT_TILES else tiles_numba.dot_tile(4)
_dot_4, _dot_2, _dot_1 = (tiles_numba.dot_tile(rows) for rows in (4, 2, 1))

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
_TAKE_A, _TAKE_B, _TAKE_W = plans.TAKE_A, plans.TAKE_B, plans.TAKE_W
_OUT_N, _OUT_C, _OUT_A, _OUT_B, _OUT_W = plans.OUT_N, plans.OUT_C, plans.OUT_A, plans.OUT_B, plans.OUT_W
_TAPS, _TAPS_AT, _WEIGHTS_AT, _MODE = plans.TAPS, plans.TAPS_AT, plans.WEIGHTS_AT, plans.MODE
_LOW_A, _COUNT_A, _AT_A = plans.LOW_A, plans.COUNT_A, plans.AT_A
_LOW_B, _COUNT_B, _AT_B = plans.LOW_B, plans.COUNT_B, plans.AT_B
_LOW_W, _COUNT_W, _AT_W = plans.LOW_W, plans.COUNT_W, plans.AT_W


@chunked(key=_KEY)
def correlate(bias, x, packed, out, geometry, phases, steps, parts, rows, start, stop):
    """Items (images and lines of outputs) of a plan: sums of products of the planes of x with packed weights, plus bias, to out.

    Args:
        bias (CO,): also says the dtype of everything.
        x, packed, out: addresses.
        geometry, phases, steps, parts: tables of the plan.
        rows (blocks, 2): first channel of a group and number of channels for each tile.
    """
    size = bias.itemsize
    direct, groups, outer, depth = geometry[_DIRECT], geometry[_GROUPS], geometry[_OUTER], geometry[_DEPTH]
    room = np.zeros(geometry[_ROOM], bias.dtype)
    scratch = np.empty(geometry[_SCRATCH], bias.dtype)
    places, targets = np.empty(geometry[_VECTORS] + 16, np.int64), np.empty(geometry[_VECTORS] + 16, np.int64)
    count, known = 0, (0, 0, 0)
    for item in range(start, stop):
        n = item // geometry[_BLOCKS] * geometry[_GROUP]
        images = min(geometry[_GROUP], geometry[_BATCH] - n)
        first = geometry[_FIRST] + item % geometry[_BLOCKS] * geometry[_ROWS]
        last = min(first + geometry[_ROWS], geometry[_LAST])
        for group in range(groups):
            for inner in range(0, geometry[_INNER], depth):
                channels = min(depth, geometry[_INNER] - inner)
                source = x + n * geometry[_X_N] + (group * geometry[_INNER] + inner) * geometry[_X_C]
                if direct:
                    base = source + first * geometry[_JUMP_A] * geometry[_STEP_A]
                else:
                    base = room.ctypes.data
                    _lay_out(bias, base, source, images, channels, first, last, geometry, parts)
                for index in range(phases.shape[0]):
                    phase = phases[index]
                    begin, end = max(first, phase[_LOW_A]), min(last, phase[_LOW_A] + phase[_COUNT_A])
                    if begin >= end or phase[_COUNT_B] <= 0 or phase[_COUNT_W] <= 0:
                        continue
                    straight = phase[_MODE] == 1
                    if (
                        phases.shape[0] > 1
                        or images != known[0]
                        or end - begin != known[1]
                        or begin - first != known[2]
                    ):
                        count = _cover(places, targets, images, begin, end, first, phase, geometry, straight, size)
                        known = (images, end - begin, begin - first)
                    taps = phase[_TAPS] * channels
                    steps_at = steps.ctypes.data + phase[_TAPS_AT] * 8
                    result = out + n * geometry[_OUT_N] + group * outer * geometry[_OUT_C]
                    result += (phase[_AT_A] + (begin - phase[_LOW_A]) * geometry[_TAKE_A]) * geometry[_OUT_A]
                    step = geometry[_OUT_C] if straight else images * geometry[_SPAN]
                    for block in range(rows.shape[0]):
                        channel, height = rows[block, 0], rows[block, 1]
                        weights = packed + phase[_WEIGHTS_AT] * size
                        weights += ((group * outer + channel) * geometry[_INNER] + inner * height) * phase[_TAPS] * size
                        target = scratch.ctypes.data
                        if straight:
                            target = result + channel * step
                        elif depth < geometry[_INNER]:
                            target += (index * outer + channel) * geometry[_GROUP] * geometry[_SPAN]
                        biases = bias.ctypes.data + (group * outer + channel) * size
                        if taps > 0:
                            start_at = biases if inner == 0 else 0
                            _tiles(
                                bias,
                                base,
                                steps_at,
                                taps,
                                weights,
                                places,
                                target,
                                targets,
                                step,
                                start_at,
                                height,
                                count,
                            )
                        else:
                            for row in range(height):
                                copy_strided(bias, target + row * step, size, biases + row * size, 0, step // size)
                        if not straight and inner + channels == geometry[_INNER]:
                            _take_out(bias, target, step, result, channel, height, images, begin, end, phase, geometry)


@compiled
def _tiles(like, base, steps, taps, weights, places, target, targets, step, biases, height, count):
    """One tile after the other over `count` vectors of outputs of `height` channels."""
    p, t = places.ctypes.data, targets.ctypes.data
    if height == 8:
        for v in range(0, count, 3):
            _product_8(like, base, steps, taps, weights, p + 8 * v, target, t + 8 * v, step, biases)
    elif height == 6:
        for v in range(0, count, _WIDTH_6):
            _product_6(like, base, steps, taps, weights, p + 8 * v, target, t + 8 * v, step, biases)
    elif height == 4:
        for v in range(0, count, _WIDTH_4):
            _product_4(like, base, steps, taps, weights, p + 8 * v, target, t + 8 * v, step, biases)
    elif height == 2:
        for v in range(0, count, _WIDTH_2):
            _product_2(like, base, steps, taps, weights, p + 8 * v, target, t + 8 * v, step, biases)
    else:
        for v in range(0, count, _WIDTH_1):
            _product_1(like, base, steps, taps, weights, p + 8 * v, target, t + 8 * v, step, biases)


_WIDTH_6, _WIDTH_4, _WIDTH_2, _WIDTH_1 = (tiles_numba.PRODUCT_TILES[rows] for rows in (6, 4, 2, 1))


@compiled
def _cover(places, targets, images, begin, end, first, phase, geometry, straight, size):
    """Offsets of vectors that hold all outputs of lines begin to end, and of their results; how many.

    `straight`: results go where they belong, and the last vector of a line overlaps the one before. Else vectors run on from line
    to line in the plane, over what lies between lines, and results go to the same places of a scratch plane.
    """
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
                        at = max(min(at, span - BYTES), 0)
                        places[v] = image * geometry[_IMAGE] + origin + at
                        targets[v] = image * geometry[_SPAN] + at
                        v += 1
                        at += BYTES
                    covered = max(at, covered)
    for extra in range(8):
        places[v + extra], targets[v + extra] = places[v - 1], targets[v - 1]
    return v


@compiled
def _lay_out(like, room, source, images, channels, first, last, geometry, parts):
    """Planes of some images and channels, with their padding, for outputs of the lines first to last. `room` is zero at first.

    `parts` says for each part of a split line (element where it begins, first place, places, first element of the source).
    """
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
def _take_out(like, scratch, step, result, channel, height, images, begin, end, phase, geometry):
    """Results of `height` channels from their scratch planes to where they belong."""
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


@chunked(noalias=True)
def pack_weights(w, packed, group_step, outer_step, inner_step, groups, outer, inner, phases, taps, rows, start, stop):
    """Weights in the order in which the tiles of each block of channels read them; items are the groups times the blocks.

    Args:
        w: flat weights; steps say how far apart groups, output and input channels are (taps are neighbours).
        taps: the taps of each phase, one after the other.
    """
    for item in range(start, stop):
        group, block = item // rows.shape[0], item % rows.shape[0]
        channel, height = rows[block, 0], rows[block, 1]
        taps_at = 0
        for index in range(phases.shape[0]):
            count = phases[index, _TAPS]
            target = phases[index, _WEIGHTS_AT] + (group * outer + channel) * count * inner
            for c in range(inner):
                for t in range(count):
                    source = group * group_step + channel * outer_step + c * inner_step + taps[taps_at + t]
                    if height == 8:  # a number of turns that LLVM knows
                        for row in range(8):
                            packed[np.uint64(target + row)] = w[np.uint64(source + row * outer_step)]
                    else:
                        for row in range(height):
                            packed[np.uint64(target + row)] = w[np.uint64(source + row * outer_step)]
                    target += height
            taps_at += count


@chunked
def planes(like, out, pitch, x, geometry, parts, start, stop):
    """Planes of items as `correlate` lays them out for itself, for arrays that are read many times: item i at out + i * pitch."""
    for item in range(start, stop):
        n = item // geometry[_BLOCKS] * geometry[_GROUP]
        images = min(geometry[_GROUP], geometry[_BATCH] - n)
        first = item % geometry[_BLOCKS] * geometry[_ROWS]
        last = min(first + geometry[_ROWS], geometry[_LAST])
        _lay_out(
            like, out + item * pitch, x + n * geometry[_X_N], images, geometry[_INNER], first, last, geometry, parts
        )


@chunked(key=_KEY)
def correlate_weights(partial, x, g, geometry, phase, taps, parts, rows, slices, pace, start, stop):
    """Items (parts of the batch x groups x slices of input channels) of the gradient of the weight, each into its own `partial`.

    Args:
        partial: zeros (parts of the batch, groups, slices, CO / groups, columns), flat; also says the dtype.
        x, g: addresses.
        phase: one row of a plan's phases. taps: offsets of the kernel's taps in a plane.
        slices: number of slices, channels of each, columns of each with what tiles write beyond, parts of the batch, columns
            that are taken together.
        pace: steps of g between images, channels, lines of A and B, and items where it is laid out in items.
    """
    size = partial.itemsize
    lanes = BYTES // size
    direct, outer = geometry[_DIRECT], geometry[_OUTER]
    number, thickness, columns, shares = slices[0], slices[1], slices[2], slices[3]
    room = np.zeros(geometry[_ROOM], partial.dtype)
    g_places, x_places = np.empty(geometry[_VECTORS] + 16, np.int64), np.empty(geometry[_VECTORS] + 16, np.int64)
    masks = np.empty(geometry[_VECTORS] * lanes, partial.dtype)
    offsets = np.empty(columns + 16, np.int64)
    full, count, known = 0, 0, (0, 0)
    pieces = (geometry[_BATCH] + geometry[_GROUP] - 1) // geometry[_GROUP] * geometry[_BLOCKS]
    for item in range(start, stop):
        share, group, piece = item // number // geometry[_GROUPS], item // number % geometry[_GROUPS], item % number
        channel = piece * thickness
        channels = min(thickness, geometry[_INNER] - channel)
        used = channels * taps.size
        for c in range(channels):
            for t in range(taps.size):
                offsets[c * taps.size + t] = c * geometry[_PLANE] + taps[t]
        for extra in range(8):
            offsets[used + extra] = offsets[used - 1]
        result = partial.ctypes.data + item * outer * columns * size
        for index in range(pieces * share // shares, pieces * (share + 1) // shares):
            n = index // geometry[_BLOCKS] * geometry[_GROUP]
            images = min(geometry[_GROUP], geometry[_BATCH] - n)
            first = geometry[_FIRST] + index % geometry[_BLOCKS] * geometry[_ROWS]
            last = min(first + geometry[_ROWS], geometry[_LAST])
            source = x + n * geometry[_X_N] + (group * geometry[_INNER] + channel) * geometry[_X_C]
            if direct:
                base = source + first * geometry[_JUMP_A] * geometry[_STEP_A]
            else:
                base = room.ctypes.data
                _lay_out(partial, base, source, images, channels, first, last, geometry, parts)
            if images != known[0] or last - first != known[1]:
                full, count = _pair(g_places, x_places, masks, images, first, last, phase, geometry, pace, size)
                known = (images, last - first)
            left = g + group * outer * pace[1]
            left += index * pace[4] if pace[4] else n * pace[0] + first * pace[2]
            for column in range(0, used, slices[4]):
                for block in range(rows.shape[0]):
                    o, height = rows[block, 0], rows[block, 1]
                    width = _dot_width(height)
                    for at in range(column, min(column + slices[4], used), width):
                        line, target = left + o * pace[1], result + (o * columns + at) * size
                        tap = offsets.ctypes.data + 8 * at
                        gp, xp, mp = g_places.ctypes.data, x_places.ctypes.data, masks.ctypes.data
                        if height == 6:
                            _dot_6(partial, line, pace[1], gp, base, xp, full, count, mp, tap, target, columns * size)
                        elif height == 4:
                            _dot_4(partial, line, pace[1], gp, base, xp, full, count, mp, tap, target, columns * size)
                        elif height == 2:
                            _dot_2(partial, line, pace[1], gp, base, xp, full, count, mp, tap, target, columns * size)
                        else:
                            _dot_1(partial, line, pace[1], gp, base, xp, full, count, mp, tap, target, columns * size)


_DOT_6, _DOT_4, _DOT_2, _DOT_1 = (tiles_numba.DOT_TILES.get(rows, 1) for rows in (6, 4, 2, 1))


@compiled(key=_KEY)
def _dot_width(height):
    return _DOT_6 if height == 6 else _DOT_4 if height == 4 else _DOT_2 if height == 2 else _DOT_1


@compiled
def _pair(g_places, x_places, masks, images, first, last, phase, geometry, pace, size):
    """Offsets of vectors of g and of the planes that meet, each output once: those that count in full, then those with a mask."""
    lanes = BYTES // size
    step_a, step_b = geometry[_JUMP_A] * geometry[_STEP_A], geometry[_JUMP_B] * geometry[_STEP_B]
    width, along, direct = phase[_COUNT_W], phase[_MODE] != 1, geometry[_DIRECT]
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
                            if (j + lanes > width) != (masked == 1):
                                continue
                            at = min(j, width - lanes)
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
                            whole = at + BYTES <= line + width * size
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


@chunked
def add_partials(partial, w, sizes, start, stop):
    """The output channels start to stop of the gradient of the weight: the partials of the parts of the batch added in order.

    `sizes`: parts of the batch, groups, slices, CO / groups, columns, channels of a slice, C / groups, taps.
    """
    shares, groups, number, outer, columns, thickness, inner, taps = sizes
    stride = groups * number * outer * columns
    for channel in range(start, stop):
        group, o = channel // outer, channel % outer
        for piece in range(number):
            begin = ((group * number + piece) * outer + o) * columns
            count = min(thickness, inner - piece * thickness) * taps
            target = channel * inner * taps + piece * thickness * taps
            for j in range(count):
                total = partial[begin + j]
                for share in range(1, shares):
                    total += partial[share * stride + begin + j]
                w[target + j] = total
