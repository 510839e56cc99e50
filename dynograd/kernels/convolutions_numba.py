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
from dynograd.kernels.planes_numba import address_of, cover, lay_out, pair, take_out
from dynograd.kernels.tiles_numba import BYTES, copy_strided, plain, transpose_lines

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
_CHUNK = plans.CHUNK
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


@chunked(key=_KEY)
def correlate(bias, x, packed, out, tables, start, stop):
    """Items (images and lines of outputs) of a plan: sums of products of the planes of x with packed weights, plus bias, to out.

    Args:
        bias (CO,): also says the dtype of everything.
        x, packed, out: addresses.
    """
    plain()
    size = bias.itemsize
    geometry = tables
    phases = tables[tables[_PHASES_AT] : tables[_PHASES_AT] + 13 * tables[_PHASES]].reshape((tables[_PHASES], 13))
    rows = tables[tables[_ROWS_AT] : tables[_ROWS_AT] + 2 * tables[_HEIGHTS]].reshape((tables[_HEIGHTS], 2))
    parts = tables[tables[_PARTS_AT] : tables[_PARTS_AT] + 4 * tables[_PARTS]].reshape((tables[_PARTS], 4))
    steps = address_of(tables) + tables[_STEPS_AT] * 8
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
                    base = address_of(room)
                    lay_out(bias, base, source, images, channels, first, last, geometry, parts)
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
                        count = cover(places, targets, images, begin, end, first, phase, geometry, straight, size)
                        known = (images, end - begin, begin - first)
                    taps = phase[_TAPS] * channels
                    steps_at = steps + phase[_TAPS_AT] * 8
                    result = out + n * geometry[_OUT_N] + group * outer * geometry[_OUT_C]
                    result += (phase[_AT_A] + (begin - phase[_LOW_A]) * geometry[_TAKE_A]) * geometry[_OUT_A]
                    step = geometry[_OUT_C] if straight else images * geometry[_SPAN]
                    # few taps: tiles of all channels over a few vectors of x, which stay in the first-level cache
                    chunk = geometry[_CHUNK] if straight else count
                    for v in range(0, count, chunk):
                        many = min(chunk, count - v)
                        places_at, targets_at = address_of(places) + 8 * v, address_of(targets) + 8 * v
                        for block in range(rows.shape[0]):
                            channel, height = rows[block, 0], rows[block, 1]
                            weights = packed + phase[_WEIGHTS_AT] * size
                            weights += (
                                ((group * outer + channel) * geometry[_INNER] + inner * height) * phase[_TAPS] * size
                            )
                            target = address_of(scratch)
                            if straight:
                                target = result + channel * step
                            elif depth < geometry[_INNER]:
                                target += (index * outer + channel) * geometry[_GROUP] * geometry[_SPAN]
                            biases = address_of(bias) + (group * outer + channel) * size
                            if taps > 0:
                                start_at = biases if inner == 0 else 0
                                _tiles(
                                    bias,
                                    base,
                                    steps_at,
                                    taps,
                                    weights,
                                    places_at,
                                    target,
                                    targets_at,
                                    step,
                                    start_at,
                                    height,
                                    many,
                                )
                            else:
                                for row in range(height):
                                    copy_strided(bias, target + row * step, size, biases + row * size, 0, step // size)
                            if not straight and inner + channels == geometry[_INNER]:
                                take_out(
                                    bias, target, step, result, channel, height, images, begin, end, phase, geometry
                                )


@compiled
def _tiles(like, base, steps, taps, weights, places, target, targets, step, biases, height, count):
    """One tile after the other over `count` vectors of outputs of `height` channels; all but `like` are numbers."""
    plain()
    if height == 8:
        for v in range(0, count, 3):
            _product_8(like, base, steps, taps, weights, places + 8 * v, target, targets + 8 * v, step, biases)
    elif height == 6:
        for v in range(0, count, _WIDTH_6):
            _product_6(like, base, steps, taps, weights, places + 8 * v, target, targets + 8 * v, step, biases)
    elif height == 4:
        for v in range(0, count, _WIDTH_4):
            _product_4(like, base, steps, taps, weights, places + 8 * v, target, targets + 8 * v, step, biases)
    elif height == 2:
        for v in range(0, count, _WIDTH_2):
            _product_2(like, base, steps, taps, weights, places + 8 * v, target, targets + 8 * v, step, biases)
    else:
        for v in range(0, count, _WIDTH_1):
            _product_1(like, base, steps, taps, weights, places + 8 * v, target, targets + 8 * v, step, biases)


_WIDTH_6, _WIDTH_4, _WIDTH_2, _WIDTH_1 = (tiles_numba.PRODUCT_TILES[rows] for rows in (6, 4, 2, 1))


@chunked(noalias=True)
def pack_weights(w, packed, steps, groups, outer, inner, phases, taps, rows, start, stop):
    """Weights in the order in which the tiles of each block of channels read them; items are the groups times the blocks.

    Args:
        w: flat weights; `steps` say how far apart groups, output channels, input channels and taps are.
        taps: the taps of each phase, one after the other.
    """
    group_step, outer_step, inner_step, tap_step = steps
    size = w.itemsize
    lanes = BYTES // size
    for item in range(start, stop):
        group, block = item // rows.shape[0], item % rows.shape[0]
        channel, height = rows[block, 0], rows[block, 1]
        taps_at = 0
        for index in range(phases.shape[0]):
            count = phases[index, _TAPS]
            target = phases[index, _WEIGHTS_AT] + (group * outer + channel) * count * inner
            begin = group * group_step + channel * outer_step
            first = taps[taps_at] if count else 0
            turn = 1 if count > 1 and taps[taps_at + 1] > first else -1
            if count * inner == 0:
                continue
            if (
                height == lanes
                and count >= lanes
                and tap_step == 1
                and taps[taps_at + count - 1] == first + turn * (count - 1)
            ):
                # taps are neighbours, and so are channels in the result
                for c in range(inner):
                    source = address_of(w) + (begin + c * inner_step + min(first, first + turn * (count - 1))) * size
                    for t in range(0, count, lanes):
                        along = min(t, count - lanes)
                        place = along if turn == 1 else count - 1 - along
                        to = address_of(packed) + (target + (c * count + place) * height) * size
                        transpose_lines(w, to, turn * height * size, source + along * size, outer_step * size)
            elif height == lanes and count == 1 and inner_step == 1 and inner >= lanes:
                source, to = address_of(w) + (begin + first * tap_step) * size, address_of(packed) + target * size
                for t in range(0, inner, lanes):
                    c = min(t, inner - lanes)
                    transpose_lines(w, to + c * height * size, height * size, source + c * size, outer_step * size)
            else:
                for c in range(inner):
                    for t in range(count):
                        source = begin + c * inner_step + taps[taps_at + t] * tap_step
                        for row in range(height):
                            packed[np.uint64(target + row)] = w[np.uint64(source + row * outer_step)]
                        target += height
            taps_at += count


@chunked(key=_KEY)
def planes(like, out, x, pitch, tables, start, stop):
    """Planes of items as `correlate` lays them out for itself, for arrays that are read many times: item i at out + i * pitch."""
    plain()
    geometry = tables
    parts = tables[tables[_PARTS_AT] : tables[_PARTS_AT] + 4 * tables[_PARTS]].reshape((tables[_PARTS], 4))
    for item in range(start, stop):
        n = item // geometry[_BLOCKS] * geometry[_GROUP]
        images = min(geometry[_GROUP], geometry[_BATCH] - n)
        first = item % geometry[_BLOCKS] * geometry[_ROWS]
        last = min(first + geometry[_ROWS], geometry[_LAST])
        lay_out(
            like, out + item * pitch, x + n * geometry[_X_N], images, geometry[_INNER], first, last, geometry, parts
        )


@chunked(key=_KEY)
def correlate_weights(partial, x, g, _, tables, start, stop):
    """Items (parts of the batch x groups x slices of input channels) of the gradient of the weight, each into its own `partial`.

    Args:
        partial: zeros (parts of the batch, groups, slices, CO / groups, columns), flat; also says the dtype.
        x, g: addresses.
    """
    plain()
    size = partial.itemsize
    lanes = BYTES // size
    geometry = tables
    phase = tables[tables[_PHASES_AT] : tables[_PHASES_AT] + 13]
    rows = tables[tables[_ROWS_AT] : tables[_ROWS_AT] + 2 * tables[_HEIGHTS]].reshape((tables[_HEIGHTS], 2))
    parts = tables[tables[_PARTS_AT] : tables[_PARTS_AT] + 4 * tables[_PARTS]].reshape((tables[_PARTS], 4))
    taps = tables[tables[_OFFSETS_AT] : tables[_OFFSETS_AT] + tables[_OFFSETS]]
    direct, outer = tables[_DIRECT], tables[_OUTER]
    number, thickness, columns, shares = tables[_SLICES], tables[_THICKNESS], tables[_COLUMN], tables[_SHARES]
    together, pace = tables[_TOGETHER], tables[_PACE_N : _PACE_ITEM + 1]
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
        result = address_of(partial) + item * outer * columns * size
        for index in range(pieces * share // shares, pieces * (share + 1) // shares):
            n = index // geometry[_BLOCKS] * geometry[_GROUP]
            images = min(geometry[_GROUP], geometry[_BATCH] - n)
            first = geometry[_FIRST] + index % geometry[_BLOCKS] * geometry[_ROWS]
            last = min(first + geometry[_ROWS], geometry[_LAST])
            source = x + n * geometry[_X_N] + (group * geometry[_INNER] + channel) * geometry[_X_C]
            if direct:
                base = source + first * geometry[_JUMP_A] * geometry[_STEP_A]
            else:
                base = address_of(room)
                lay_out(partial, base, source, images, channels, first, last, geometry, parts)
            if images != known[0] or last - first != known[1]:
                full, count = pair(g_places, x_places, masks, images, first, last, phase, geometry, pace, size)
                known = (images, last - first)
            left = g + group * outer * pace[1]
            left += index * pace[4] if pace[4] else n * pace[0] + first * pace[2]
            for column in range(0, used, together):
                for block in range(rows.shape[0]):
                    o, height = rows[block, 0], rows[block, 1]
                    width = _dot_width(height)
                    # the tiles that begin in these columns
                    for at in range((column + width - 1) // width * width, min(column + together, used), width):
                        line, target = left + o * pace[1], result + (o * columns + at) * size
                        tap = address_of(offsets) + 8 * at
                        gp, xp, mp = address_of(g_places), address_of(x_places), address_of(masks)
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
