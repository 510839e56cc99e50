"""Binary searches of many values at once, counts of small whole numbers, and runs of equal values.

A search waits for memory at each of its steps; LANES searches that step together wait at the same time, and so many steps become
vector instructions: one by one they would be branches that processors guess wrong half of the time.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled

LANES = 64  # searches that go on together: see the top
PIECE = 4096  # neighbours that one thread looks at


@chunked(noalias=True)
def search(table, values, right, out, start, stop):
    """out[r, i] = how many of the sorted table[r] are below values[r, i] (or equal, when `right`); NaN is above all. Items are (r, 64 values)."""
    count = values.shape[1]
    size = table.shape[1]
    blocks = (count + LANES - 1) // LANES
    flat, operands, result = table.reshape(-1), values.reshape(-1), out.reshape(-1)
    shared = table.shape[0] == 1
    places = np.empty(LANES, np.int64)
    for item in range(start, stop):
        row, first = item // blocks, (item % blocks) * LANES
        origin = np.int64(0) if shared else row * size
        lanes, of = min(LANES, count - first), row * count + first
        for lane in range(lanes):
            places[np.uint64(lane)] = origin
        left = size
        while left > 0:
            half = max(left // 2, 1)
            if right:
                for lane in range(lanes):
                    place = places[np.uint64(lane)]
                    below = flat[np.uint64(place + half - 1)] <= operands[np.uint64(of + lane)]
                    places[np.uint64(lane)] = place + (half if below else 0)
            else:
                for lane in range(lanes):
                    place = places[np.uint64(lane)]
                    below = flat[np.uint64(place + half - 1)] < operands[np.uint64(of + lane)]
                    places[np.uint64(lane)] = place + (half if below else 0)
            left -= half
        unordered = False
        for lane in range(lanes):
            value = operands[np.uint64(of + lane)]
            unordered |= value != value
            result[np.uint64(of + lane)] = places[np.uint64(lane)] - origin
        if unordered:
            for lane in range(lanes):
                value = operands[np.uint64(of + lane)]
                if value != value:
                    last = size
                    while (
                        not right
                        and last > 0
                        and flat[np.uint64(origin + last - 1)] != flat[np.uint64(origin + last - 1)]
                    ):
                        last -= 1
                    result[np.uint64(of + lane)] = last


@chunked(noalias=True)
def count_in_blocks(index, counts, start, stop):
    """counts[b, v] = how often v occurs in the b-th of equal parts of a vector; `counts` starts from 0. Items are four parts.

    The four go on side by side: a count that has just been written is slow to read, and neighbours are often equal.
    """
    blocks, size = counts.shape
    target = counts.reshape(-1)
    length = index.size // blocks
    for item in range(start, stop):
        first, row = 4 * item * length, 4 * item * size
        for place in range(first, first + length):
            target[np.uint64(row + index[np.uint64(place)])] += 1
            target[np.uint64(row + size + index[np.uint64(place + length)])] += 1
            target[np.uint64(row + 2 * size + index[np.uint64(place + 2 * length)])] += 1
            target[np.uint64(row + 3 * size + index[np.uint64(place + 3 * length)])] += 1
        if 4 * item + 4 == blocks:
            for place in range(blocks * length, index.size):
                target[np.uint64(row + index[np.uint64(place)])] += 1


@chunked(noalias=True)
def count_steps(x, counts, start, stop):
    """counts[i] = how many of the i-th PIECE elements of a vector differ from the one before; items are i."""
    for i in range(start, stop):
        total = np.int32(0)
        for place in range(max(1, i * PIECE), min(x.size, (i + 1) * PIECE)):
            total += np.int32(x[np.uint64(place)] != x[np.uint64(place - 1)])
        counts[i] = total


@chunked(noalias=True)
def runs(x, before, values, numbers, starts, start, stop):
    """The value of each run of equal elements of a vector, for each element the number of its run, and where the runs begin.

    `numbers` and `starts` may be empty: then nobody asks. Items are i: the i-th PIECE elements, before which there are before[i] steps.
    """
    for i in range(start, stop):
        run, end = before[i], min(x.size, (i + 1) * PIECE)
        if i == 0:
            values[0] = x[0]
            if numbers.size:
                numbers[0] = 0
            if starts.size:
                starts[0] = 0
        for first in range(max(1, i * PIECE), end, LANES):
            last = min(end, first + LANES)
            steps = np.int32(0)
            for place in range(first, last):  # without a branch for each
                steps += np.int32(x[np.uint64(place)] != x[np.uint64(place - 1)])
            if steps == 0:
                if numbers.size:
                    numbers[first:last] = run
                continue
            for place in range(first, last):
                value = x[np.uint64(place)]
                if value != x[np.uint64(place - 1)]:
                    run += 1
                    values[np.uint64(run)] = value
                    if starts.size:
                        starts[np.uint64(run)] = place
                if numbers.size:
                    numbers[np.uint64(place)] = run


@compiled
def lengths_of(starts, size):
    """Where runs begin becomes how long they are; `size` is where the last one ends."""
    for run in range(starts.size - 1):
        starts[run] = starts[run + 1] - starts[run]
    if starts.size:
        starts[-1] = size - starts[-1]


@chunked(noalias=True)
def longest_runs(ordered, size, out, start, stop):
    """Where the longest run of equal elements ends in each sorted row of `size`, the first of several; items are rows."""
    for row in range(start, stop):
        origin = row * size
        begin = best = longest = 0
        for place in range(1, size + 1):
            if place == size or ordered[np.uint64(origin + place)] != ordered[np.uint64(origin + place - 1)]:
                if place - begin > longest:
                    longest, best = place - begin, place - 1
                begin = place
        out[row] = best
