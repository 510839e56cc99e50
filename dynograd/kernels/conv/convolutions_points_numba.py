"""Compiled kernels of convolution with register tiles over output channels. See `convolutions_point_plans`.

Images are copied into planes with their padding: as they are in channels_last (not at all where there is no padding), else
turned, and so are results. Every output is summed in
one order, whatever the batch and the number of threads.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.conv import convolutions_tables as head
from dynograd.kernels.tiles.planes_numba import address_of, lay_out, turn_in, turn_out
from dynograd.kernels.tiles.point_tiles_numba import POINTS, WIDTH, outer_tile, point_tile
from dynograd.kernels.tiles.tiles_numba import BYTES, copy_lines, copy_strided, plain, transpose_lines

_KEY = f"{BYTES} {WIDTH} {POINTS}"


@chunked(key=_KEY)
def correlate_points(bias, x, packed, out, tables, start, stop):
    """Items (images and lines of outputs) of a plan: sums of products of the planes of x with packed weights, plus bias, to out.

    Args:
        bias (CO,): also says the dtype of everything.
        x, packed, out: addresses.
    """
    plain()
    size = bias.itemsize
    geometry = tables
    phases = tables[tables[head.PHASES_AT] : tables[head.PHASES_AT] + 13 * tables[head.PHASES]]
    phases = phases.reshape((tables[head.PHASES], 13))
    blocks = tables[tables[head.ROWS_AT] : tables[head.ROWS_AT] + tables[head.HEIGHTS]]
    parts = tables[tables[head.PARTS_AT] : tables[head.PARTS_AT] + 4].reshape((1, 4))
    room = np.zeros(geometry[head.ROOM], bias.dtype)
    places, targets = np.empty(geometry[head.VECTORS], np.int64), np.empty(geometry[head.VECTORS], np.int64)
    turned = geometry[head.OUT_C] != size  # vectors of a block first go to `vectors`, and from there to planes
    vectors = np.empty(geometry[head.VECTORS] * (WIDTH // size) if turned else 1, bias.dtype)
    count, known = 0, (0, 0)
    for item in range(start, stop):
        n = item // geometry[head.BLOCKS] * geometry[head.GROUP]
        images = min(geometry[head.GROUP], geometry[head.BATCH] - n)
        first = geometry[head.FIRST] + item % geometry[head.BLOCKS] * geometry[head.ROWS]
        last = min(first + geometry[head.ROWS], geometry[head.LAST])
        base = _planes(bias, room, x + n * geometry[head.X_N], images, first, last, geometry, parts)
        for index in range(phases.shape[0]):
            phase = phases[index]
            begin, end = max(first, phase[head.LOW_A]), min(last, phase[head.LOW_A] + phase[head.COUNT_A])
            if begin >= end:
                continue
            if phases.shape[0] > 1 or images != known[0] or last - first != known[1]:
                count = cover_points(places, targets, images, begin, end, first, phase, geometry)
                if turned:
                    for v in range(geometry[head.VECTORS]):
                        targets[v] = v * WIDTH
                known = (images, last - first)
            taps, together = phase[head.TAPS], phase[head.MODE]
            runs = address_of(tables) + (tables[head.STEPS_AT] + phase[head.TAPS_AT]) * 8
            length = together * geometry[head.INNER] * size
            result = out + n * geometry[head.OUT_N]
            result += (phase[head.AT_A] + (begin - phase[head.LOW_A]) * geometry[head.TAKE_A]) * geometry[head.OUT_A]
            for block in range(blocks.size):
                weights = packed + (phase[head.WEIGHTS_AT] * size + block * taps * geometry[head.INNER] * WIDTH)
                biases = address_of(bias) + blocks[block] * size
                target = address_of(vectors) if turned else result + blocks[block] * size
                if taps > 0:
                    for v in range(0, count, POINTS):
                        come, to = address_of(places) + 8 * v, address_of(targets) + 8 * v
                        point_tile(bias, base, come, runs, taps // together, length, weights, target, to, biases)
                else:
                    for v in range(count):
                        copy_lines(bias, target + targets[v], 0, biases, 0, 1, WIDTH // size)
                if turned:
                    to = result + blocks[block] * geometry[head.OUT_C]
                    _take_out_points(bias, address_of(vectors), to, images, end - begin, phase, geometry)


@compiled
def _planes(like, room, source, images, first, last, geometry, parts):
    """Where the planes of some images begin: in `source` itself, or in `room`, to where they are copied."""
    plain()
    if geometry[head.DIRECT]:
        return source + first * geometry[head.JUMP_A] * geometry[head.STEP_A]
    lay_out(like, address_of(room), source, images, 1, first, last, geometry, parts)
    return address_of(room)


@compiled
def _take_out_points(like, vectors, result, images, lines, phase, geometry):
    """The vectors of a block of channels to where they belong in planes."""
    plain()
    step = geometry[head.TAKE_W] * geometry[head.OUT_W]
    for image in range(images):
        for a in range(lines):
            for b in range(phase[head.COUNT_B]):
                to = result + image * geometry[head.OUT_N] + a * geometry[head.TAKE_A] * geometry[head.OUT_A]
                to += (phase[head.AT_B] + b * geometry[head.TAKE_B]) * geometry[head.OUT_B]
                to += phase[head.AT_W] * geometry[head.OUT_W]
                width = phase[head.COUNT_W]
                turn_out(like, to, step, geometry[head.OUT_C], vectors, WIDTH, width, WIDTH // like.itemsize)
                vectors += width * WIDTH


@compiled
def cover_points(places, targets, images, begin, end, first, phase, geometry):
    """Offsets of the places that the outputs of lines begin to end read from, and of their results; how many."""
    plain()
    step_a, step_b = geometry[head.JUMP_A] * geometry[head.STEP_A], geometry[head.JUMP_B] * geometry[head.STEP_B]
    step_w, out_w = geometry[head.JUMP_W] * geometry[head.STEP_W], geometry[head.TAKE_W] * geometry[head.OUT_W]
    origin = (begin - first) * step_a + phase[head.LOW_B] * step_b + phase[head.LOW_W] * step_w
    v = 0
    for image in range(images):
        for a in range(end - begin):
            for b in range(phase[head.COUNT_B]):
                place = image * geometry[head.IMAGE] + origin + a * step_a + b * step_b
                target = image * geometry[head.OUT_N] + a * geometry[head.TAKE_A] * geometry[head.OUT_A]
                target += (phase[head.AT_B] + b * geometry[head.TAKE_B]) * geometry[head.OUT_B]
                target += phase[head.AT_W] * geometry[head.OUT_W]
                for _ in range(phase[head.COUNT_W]):
                    places[v], targets[v] = place, target
                    place, target, v = place + step_w, target + out_w, v + 1
    for extra in range(v, v + POINTS - 1):
        places[extra], targets[extra] = places[v - 1], targets[v - 1]
    return v


@chunked(noalias=True)
def pack_point_weights(w, packed, steps, inner, phases, taps, blocks, start, stop):
    """Weights in the order in which the tiles of each block of channels read them; items are blocks.

    Args:
        w: flat weights; `steps` say how far apart output channels, input channels and taps are.
        taps: the taps of each phase, one after the other.
    """
    outer_step, inner_step, tap_step = steps
    size = w.itemsize
    lanes, narrow = WIDTH // size, BYTES // size
    for block in range(start, stop):
        taps_at = 0
        for index in range(phases.shape[0]):
            count = phases[index, head.TAPS]
            to = address_of(packed) + (phases[index, head.WEIGHTS_AT] + block * count * inner * lanes) * size
            first = taps[taps_at] if count else 0
            turn = 1 if count > 1 and taps[taps_at + 1] > first else -1
            if tap_step == 1 and count >= narrow and taps[taps_at + count - 1] == first + turn * (count - 1):
                # taps are neighbours
                source = address_of(w) + (blocks[block] * outer_step + min(first, taps[taps_at + count - 1])) * size
                for c in range(inner):
                    for t in range(0, count, narrow):
                        along = min(t, count - narrow)
                        place = along if turn == 1 else count - 1 - along
                        for lane in range(0, lanes, narrow):
                            come = source + (c * inner_step + along + lane * outer_step) * size
                            target = to + (place * inner + c) * WIDTH + lane * size
                            transpose_lines(w, target, turn * inner * WIDTH, come, outer_step * size)
                taps_at += count
                continue
            for t in range(count):
                source = address_of(w) + (blocks[block] * outer_step + taps[taps_at + t] * tap_step) * size
                if outer_step == 1:
                    copy_lines(w, to, WIDTH, source, inner_step * size, inner, lanes)
                elif inner_step == 1 and inner >= narrow:
                    for k in range(0, inner, narrow):
                        c = min(k, inner - narrow)
                        for lane in range(0, lanes, narrow):
                            come = source + (c + lane * outer_step) * size
                            transpose_lines(w, to + c * WIDTH + lane * size, WIDTH, come, outer_step * size)
                else:
                    for c in range(inner):
                        come = source + c * inner_step * size
                        copy_strided(w, to + c * WIDTH, size, come, outer_step * size, lanes)
                to += inner * WIDTH
            taps_at += count


@chunked(key=_KEY)
def correlate_weight_points(partial, x, g, _, tables, start, stop):
    """Items (parts of the batch x some blocks of output channels) of the gradient of the weight, each into its own `partial`.

    Args:
        partial (parts of the batch, blocks, rows of all tiles, channels of a block), flat; also says the dtype.
        x, g: addresses.
    """
    plain()
    size = partial.itemsize
    lanes = WIDTH // size
    geometry = tables
    phase = tables[tables[head.PHASES_AT] : tables[head.PHASES_AT] + 13]
    blocks = tables[tables[head.ROWS_AT] : tables[head.ROWS_AT] + tables[head.HEIGHTS]]
    parts = tables[tables[head.PARTS_AT] : tables[head.PARTS_AT] + 4].reshape((1, 4))
    tiles = tables[tables[head.OFFSETS_AT] : tables[head.OFFSETS_AT] + tables[head.OFFSETS]]
    room, vectors = (
        np.zeros(geometry[head.ROOM], partial.dtype),
        np.empty(geometry[head.VECTORS] * lanes, partial.dtype),
    )
    places, targets = np.empty(geometry[head.VECTORS], np.int64), np.empty(geometry[head.VECTORS], np.int64)
    pieces = (geometry[head.BATCH] + geometry[head.GROUP] - 1) // geometry[head.GROUP] * geometry[head.BLOCKS]
    count, known = 0, (0, 0)
    for item in range(start, stop):
        share, piece = item // geometry[head.SLICES], item % geometry[head.SLICES]
        first_block = piece * geometry[head.TOGETHER]
        last_block = min(first_block + geometry[head.TOGETHER], blocks.size)
        begin, end = pieces * share // geometry[head.SHARES], pieces * (share + 1) // geometry[head.SHARES]
        for index in range(begin, end):
            n = index // geometry[head.BLOCKS] * geometry[head.GROUP]
            images = min(geometry[head.GROUP], geometry[head.BATCH] - n)
            first = index % geometry[head.BLOCKS] * geometry[head.ROWS]
            last = min(first + geometry[head.ROWS], geometry[head.LAST])
            base = _planes(partial, room, x + n * geometry[head.X_N], images, first, last, geometry, parts)
            if images != known[0] or last - first != known[1]:
                count = cover_points(places, targets, images, first, last, first, phase, geometry)
                known = (images, last - first)
            for block in range(first_block, last_block):
                # the block's vectors of g side by side: far apart they share places of the first-level cache
                to = address_of(vectors)
                for image in range(images):
                    for a in range(first, last):
                        for b in range(phase[head.COUNT_B]):
                            come = g + (n + image) * geometry[head.OUT_N] + blocks[block] * geometry[head.OUT_C]
                            come += a * geometry[head.OUT_A] + b * geometry[head.OUT_B]
                            if geometry[head.OUT_C] == size:
                                copy_lines(partial, to, WIDTH, come, geometry[head.OUT_W], phase[head.COUNT_W], lanes)
                            else:
                                turn_in(partial, to, WIDTH, come, geometry[head.OUT_C], phase[head.COUNT_W], lanes)
                            to += phase[head.COUNT_W] * WIDTH
                result = address_of(partial) + (share * blocks.size + block) * tiles.size * POINTS * WIDTH
                for tile in range(tiles.size):
                    target = result + tile * POINTS * WIDTH
                    come = address_of(vectors)
                    outer_tile(partial, base + tiles[tile], address_of(places), come, count, target, index - begin)


@chunked(noalias=True)
def add_point_partials(partial, w, rows, blocks, shares, start, stop):
    """The gradient of the weight for some blocks of output channels: the partials of the parts of the batch added in order.

    `rows` says for each row of the tiles its place in the weight of one output channel, or -1.
    """
    size = partial.itemsize
    lanes, narrow = WIDTH // size, BYTES // size
    length = w.size // (blocks[blocks.size - 1] + lanes)
    step = blocks.size * rows.size * lanes
    sums = np.empty(length * lanes, partial.dtype)
    for block in range(start, stop):
        for row in range(rows.size):
            begin, to = (block * rows.size + row) * lanes, rows[row] * lanes
            if to < 0:
                continue
            for lane in range(lanes):
                sums[np.uint64(to + lane)] = partial[np.uint64(begin + lane)]
            for share in range(1, shares):
                for lane in range(lanes):
                    sums[np.uint64(to + lane)] += partial[np.uint64(begin + share * step + lane)]
        for lane in range(0, lanes, narrow):
            to, come = address_of(w) + (blocks[block] + lane) * length * size, address_of(sums) + lane * size
            for k in range(0, length if length >= narrow else 0, narrow):
                at = min(k, length - narrow)
                transpose_lines(w, to + at * size, length * size, come + at * WIDTH, WIDTH)
            if length < narrow:
                for row in range(narrow):
                    copy_strided(w, to + row * length * size, size, come + row * size, WIDTH, length)
