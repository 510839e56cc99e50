"""Compiled kernels of convolution: images are laid out as padded planes, and register tiles run over them. See `convolutions_plans`.

No patches are laid out as columns: a vector of neighbouring outputs of a line is, for each kernel tap, the product of one weight
with a vector of the padded plane, at an offset that a table holds. Padding, dilation, groups, strides (a plane is split so that
places a stride apart become neighbours) and the number of dimensions are all in tables and offsets; so are the input gradients.
Every output is summed in one order, whatever the batch and the number of threads.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.conv import convolutions_tables as head
from dynograd.kernels.tiles import tiles_numba
from dynograd.kernels.tiles.planes_numba import address_of, cover, lay_out, pair, take_out
from dynograd.kernels.tiles.tiles_numba import BYTES, copy_strided, plain, transpose_lines

_KEY = f"{BYTES} {tiles_numba.PRODUCT_TILES} {tiles_numba.DOT_TILES}"

_product_8 = tiles_numba.product_tile(8) if 8 in tiles_numba.PRODUCT_TILES else tiles_numba.product_tile(6)
_product_6, _product_4, _product_2, _product_1 = (tiles_numba.product_tile(rows) for rows in (6, 4, 2, 1))
_dot_6 = tiles_numba.dot_tile(6) if 6 in tiles_numba.DOT_TILES else tiles_numba.dot_tile(4)
_dot_4, _dot_2, _dot_1 = (tiles_numba.dot_tile(rows) for rows in (4, 2, 1))


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
    phases = tables[tables[head.PHASES_AT] : tables[head.PHASES_AT] + 13 * tables[head.PHASES]].reshape(
        (tables[head.PHASES], 13)
    )
    rows = tables[tables[head.ROWS_AT] : tables[head.ROWS_AT] + 2 * tables[head.HEIGHTS]].reshape(
        (tables[head.HEIGHTS], 2)
    )
    parts = tables[tables[head.PARTS_AT] : tables[head.PARTS_AT] + 4 * tables[head.PARTS]].reshape(
        (tables[head.PARTS], 4)
    )
    steps = address_of(tables) + tables[head.STEPS_AT] * 8
    direct, groups, outer, depth = (
        geometry[head.DIRECT],
        geometry[head.GROUPS],
        geometry[head.OUTER],
        geometry[head.DEPTH],
    )
    room = np.zeros(geometry[head.ROOM], bias.dtype)
    scratch = np.empty(geometry[head.SCRATCH], bias.dtype)
    places, targets = np.empty(geometry[head.VECTORS] + 16, np.int64), np.empty(geometry[head.VECTORS] + 16, np.int64)
    count, known = 0, (0, 0, 0)
    for item in range(start, stop):
        n = item // geometry[head.BLOCKS] * geometry[head.GROUP]
        images = min(geometry[head.GROUP], geometry[head.BATCH] - n)
        first = geometry[head.FIRST] + item % geometry[head.BLOCKS] * geometry[head.ROWS]
        last = min(first + geometry[head.ROWS], geometry[head.LAST])
        for group in range(groups):
            for inner in range(0, geometry[head.INNER], depth):
                channels = min(depth, geometry[head.INNER] - inner)
                source = x + n * geometry[head.X_N] + (group * geometry[head.INNER] + inner) * geometry[head.X_C]
                if direct:
                    base = source + first * geometry[head.JUMP_A] * geometry[head.STEP_A]
                else:
                    base = address_of(room)
                    lay_out(bias, base, source, images, channels, first, last, geometry, parts)
                for index in range(phases.shape[0]):
                    phase = phases[index]
                    begin, end = max(first, phase[head.LOW_A]), min(last, phase[head.LOW_A] + phase[head.COUNT_A])
                    if begin >= end or phase[head.COUNT_B] <= 0 or phase[head.COUNT_W] <= 0:
                        continue
                    straight = phase[head.MODE] == 1
                    if (
                        phases.shape[0] > 1
                        or images != known[0]
                        or end - begin != known[1]
                        or begin - first != known[2]
                    ):
                        count = cover(places, targets, images, begin, end, first, phase, geometry, straight, size)
                        known = (images, end - begin, begin - first)
                    taps = phase[head.TAPS] * channels
                    steps_at = steps + phase[head.TAPS_AT] * 8
                    result = out + n * geometry[head.OUT_N] + group * outer * geometry[head.OUT_C]
                    result += (phase[head.AT_A] + (begin - phase[head.LOW_A]) * geometry[head.TAKE_A]) * geometry[
                        head.OUT_A
                    ]
                    step = geometry[head.OUT_C] if straight else images * geometry[head.SPAN]
                    # few taps: tiles of all channels over a few vectors of x, which stay in the first-level cache
                    chunk = geometry[head.CHUNK] if straight else count
                    for v in range(0, count, chunk):
                        many = min(chunk, count - v)
                        places_at, targets_at = address_of(places) + 8 * v, address_of(targets) + 8 * v
                        for block in range(rows.shape[0]):
                            channel, height = rows[block, 0], rows[block, 1]
                            weights = packed + phase[head.WEIGHTS_AT] * size
                            weights += (
                                ((group * outer + channel) * geometry[head.INNER] + inner * height)
                                * phase[head.TAPS]
                                * size
                            )
                            target = address_of(scratch)
                            if straight:
                                target = result + channel * step
                            elif depth < geometry[head.INNER]:
                                target += (index * outer + channel) * geometry[head.GROUP] * geometry[head.SPAN]
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
                            if not straight and inner + channels == geometry[head.INNER]:
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
            count = phases[index, head.TAPS]
            target = phases[index, head.WEIGHTS_AT] + (group * outer + channel) * count * inner
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
    parts = tables[tables[head.PARTS_AT] : tables[head.PARTS_AT] + 4 * tables[head.PARTS]].reshape(
        (tables[head.PARTS], 4)
    )
    for item in range(start, stop):
        n = item // geometry[head.BLOCKS] * geometry[head.GROUP]
        images = min(geometry[head.GROUP], geometry[head.BATCH] - n)
        first = item % geometry[head.BLOCKS] * geometry[head.ROWS]
        last = min(first + geometry[head.ROWS], geometry[head.LAST])
        lay_out(
            like,
            out + item * pitch,
            x + n * geometry[head.X_N],
            images,
            geometry[head.INNER],
            first,
            last,
            geometry,
            parts,
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
    phase = tables[tables[head.PHASES_AT] : tables[head.PHASES_AT] + 13]
    rows = tables[tables[head.ROWS_AT] : tables[head.ROWS_AT] + 2 * tables[head.HEIGHTS]].reshape(
        (tables[head.HEIGHTS], 2)
    )
    parts = tables[tables[head.PARTS_AT] : tables[head.PARTS_AT] + 4 * tables[head.PARTS]].reshape(
        (tables[head.PARTS], 4)
    )
    taps = tables[tables[head.OFFSETS_AT] : tables[head.OFFSETS_AT] + tables[head.OFFSETS]]
    direct, outer = tables[head.DIRECT], tables[head.OUTER]
    number, thickness, columns, shares = (
        tables[head.SLICES],
        tables[head.THICKNESS],
        tables[head.COLUMN],
        tables[head.SHARES],
    )
    together, pace = tables[head.TOGETHER], tables[head.PACE_N : head.PACE_ITEM + 1]
    room = np.zeros(geometry[head.ROOM], partial.dtype)
    g_places, x_places = (
        np.empty(geometry[head.VECTORS] + 16, np.int64),
        np.empty(geometry[head.VECTORS] + 16, np.int64),
    )
    masks = np.empty(geometry[head.VECTORS] * lanes, partial.dtype)
    offsets = np.empty(columns + 16, np.int64)
    full, count, known = 0, 0, (0, 0)
    pieces = (geometry[head.BATCH] + geometry[head.GROUP] - 1) // geometry[head.GROUP] * geometry[head.BLOCKS]
    for item in range(start, stop):
        share, group, piece = (
            item // number // geometry[head.GROUPS],
            item // number % geometry[head.GROUPS],
            item % number,
        )
        channel = piece * thickness
        channels = min(thickness, geometry[head.INNER] - channel)
        used = channels * taps.size
        for c in range(channels):
            for t in range(taps.size):
                offsets[c * taps.size + t] = c * geometry[head.PLANE] + taps[t]
        for extra in range(8):
            offsets[used + extra] = offsets[used - 1]
        result = address_of(partial) + item * outer * columns * size
        for index in range(pieces * share // shares, pieces * (share + 1) // shares):
            n = index // geometry[head.BLOCKS] * geometry[head.GROUP]
            images = min(geometry[head.GROUP], geometry[head.BATCH] - n)
            first = geometry[head.FIRST] + index % geometry[head.BLOCKS] * geometry[head.ROWS]
            last = min(first + geometry[head.ROWS], geometry[head.LAST])
            source = x + n * geometry[head.X_N] + (group * geometry[head.INNER] + channel) * geometry[head.X_C]
            if direct:
                base = source + first * geometry[head.JUMP_A] * geometry[head.STEP_A]
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
