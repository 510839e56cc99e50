"""Long rows are sorted on the GPU by one digit of 8 bits after the other, from the lowest: count, add up, move.

A row is cut into `blocks` chunks of whole tiles. Elements move as they are and their keys are made anew each time, which costs
less than keeping both. A launch that looks back at other blocks while they run (one sweep) would read the elements once, not twice, a
digit; three launches need no promise about the order in which blocks run.
"""

from __future__ import annotations

from typing import Any

from numba import int32, int64

from dynograd.kernels.build.launching_cuda import simt_kernel
from dynograd.kernels.build.simt_language import cuda
from dynograd.kernels.sort.sorting_keys_simt import ALL_LANES, ELEMENTS, key_of, lanes_alike, sums_of_digits

ITEMS = {1: 16, 2: 16, 4: 16, 8: 8}  # of a thread, by the size of an element: more do not fit static shared memory
MOST = 256  # threads of a block
_AT_ONCE = 8  # elements of a thread that are on their way while they are counted


def _counter(size: int) -> Any:
    key_of_element, element = key_of[size], ELEMENTS[size]

    def radix_counts(x, counts, size, chunk, blocks, shift, kind, descending):
        """How many elements of each chunk of a row have each digit: counts (rows, 256, blocks)."""
        array = cuda.shared.array(256, int32)
        mine = cuda.local.array(_AT_ONCE, element)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        row, block = int64(cuda.blockIdx.x) // int64(blocks), int64(cuda.blockIdx.x) % int64(blocks)
        for d in range(thread, 256, threads):
            array[d] = int32(0)
        cuda.syncthreads()
        first = block * int64(chunk)
        left = int32(min(int64(size) - first, int64(chunk)))
        start = row * int64(size) + first
        at = int32(thread)
        while at - thread < left:  # the same for all threads: they meet at each element
            for i in range(_AT_ONCE):
                if at + i * threads < left:
                    mine[i] = x[start + int64(at + i * threads)]
            for i in range(_AT_ONCE):
                digit = int32(256)
                if at + i * threads < left:
                    digit = int32((key_of_element(mine[i], kind, descending) >> shift) & 255)
                before, alike = lanes_alike(digit, int32(thread % 32))
                if before == 0 and digit < 256:  # one for all of its warp: equal digits are no traffic jam
                    cuda.atomic.add(array, digit, alike)
            at = int32(at + _AT_ONCE * threads)
        cuda.syncthreads()
        for d in range(thread, 256, threads):
            counts[(row * 256 + int64(d)) * int64(blocks) + block] = array[d]

    return radix_counts


@simt_kernel(most=MOST, variants=[dict(counts="*i32", totals="*i32", blocks="i32")])
def radix_starts(counts, totals, blocks):
    """Makes the counts of a digit sums of those of the chunks before; totals (rows, 256). A warp has one digit of a row."""
    thread = int32(cuda.threadIdx.x)
    lane = int32(thread % 32)
    line = (int64(cuda.blockIdx.x) * int64(cuda.blockDim.x) + int64(thread)) // int64(32)
    whole = int32(0)
    at = int32(0)
    while at < blocks:
        place = line * int64(blocks) + int64(at + lane)
        count = int32(0)
        if at + lane < blocks:
            count = counts[place]
        total = int32(count)
        step = int32(1)
        while step < 32:
            other = cuda.shfl_up_sync(ALL_LANES, total, step)
            if lane >= step:
                total = int32(total + other)
            step = int32(step * 2)
        if at + lane < blocks:
            counts[place] = int32(whole + total - count)
        whole = int32(whole + cuda.shfl_sync(ALL_LANES, total, 31))
        at = int32(at + 32)
    if lane == 0:
        totals[line] = whole


def _mover(size: int) -> Any:
    key_of_element, element, items = key_of[size], ELEMENTS[size], ITEMS[size]
    tile, warps = items * MOST, MOST // 32

    def radix_move(
        x, places, starts, totals, moved, moved_places, index, size, chunk, blocks, shift, kind, descending, summed,
        first_pass, last_pass, with_values,
    ):  # fmt: skip
        """Each element of a chunk goes behind those of smaller digits, of earlier chunks, and of earlier places in its chunk.

        A tile is put in order in shared memory first, so that neighbours are written together. On the last pass the places go to
        `index`, and the elements to `moved` only if they are wanted. `summed`: by `radix_starts`, which few blocks do without.
        """
        counts = cuda.shared.array((warps, 256), int32)
        count_of = cuda.shared.array(256, int32)
        start_of = cuda.shared.array(256, int32)
        base_of = cuda.shared.array(256, int32)
        tile_bits = cuda.shared.array(tile, element)
        tile_places = cuda.shared.array(tile, int32)
        mine = cuda.local.array(items, element)
        ranks = cuda.local.array(items, int32)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        lane, warp = int32(thread % 32), int32(thread // 32)
        row, block = int64(cuda.blockIdx.x) // int64(blocks), int64(cuda.blockIdx.x) % int64(blocks)
        start = row * int64(size)
        for d in range(thread, 256, threads):
            line = row * 256 + int64(d)
            if summed:
                count_of[d] = totals[line]
                counts[0, d] = starts[line * int64(blocks) + block]
            else:
                total, before = int32(0), int32(0)
                for other in range(blocks):
                    if other == block:
                        before = total
                    total = int32(total + starts[line * int64(blocks) + int64(other)])
                count_of[d] = total
                counts[0, d] = before
        cuda.syncthreads()
        if warp == 0:
            sums_of_digits(count_of, base_of, lane)
        cuda.syncthreads()
        for d in range(thread, 256, threads):
            base_of[d] += counts[0, d]
        first = block * int64(chunk)
        last = min(int64(size), first + int64(chunk))
        while first < last:
            left = int32(min(last - first, int64(threads * items)))
            for d in range(thread, threads * 8, threads):
                counts[d >> 8, d & 255] = int32(0)
            cuda.syncthreads()
            own = int32(warp * (32 * items) + lane)  # in the tile: a warp has elements that follow each other
            source = start + first + int64(own)
            for i in range(items):
                if own + 32 * i < left:
                    mine[i] = x[source + int64(32 * i)]
            for i in range(items):
                digit = int32(255)  # what lies beyond the end has the last ranks of the last digit
                if own + 32 * i < left:
                    digit = int32((key_of_element(mine[i], kind, descending) >> shift) & 255)
                before, alike = lanes_alike(digit, lane)
                known = counts[warp, digit]
                cuda.syncwarp()
                if before == 0:
                    counts[warp, digit] = int32(known + alike)
                cuda.syncwarp()
                ranks[i] = int32(known + before)
            cuda.syncthreads()
            for d in range(thread, 256, threads):
                total = int32(0)
                for other in range(threads // 32):
                    count = counts[other, d]
                    counts[other, d] = total
                    total = int32(total + count)
                count_of[d] = total
            cuda.syncthreads()
            if warp == 0:
                sums_of_digits(count_of, start_of, lane)
            cuda.syncthreads()
            for i in range(items):
                if own + 32 * i < left:
                    digit = int32((key_of_element(mine[i], kind, descending) >> shift) & 255)
                    place = int32(start_of[digit] + counts[warp, digit] + ranks[i])
                    tile_bits[place] = mine[i]
                    if first_pass:
                        tile_places[place] = int32(first + int64(own + 32 * i))
                    else:
                        tile_places[place] = places[source + int64(32 * i)]
            cuda.syncthreads()
            e = int32(thread)
            while e < left:
                bits = tile_bits[e]
                digit = int32((key_of_element(bits, kind, descending) >> shift) & 255)
                target = start + int64(base_of[digit] + e - start_of[digit])
                if with_values or not last_pass:
                    moved[target] = bits
                if last_pass:
                    index[target] = int64(tile_places[e])
                else:
                    moved_places[target] = tile_places[e]
                e = int32(e + threads)
            cuda.syncthreads()
            for d in range(thread, 256, threads):
                base_of[d] += count_of[d]
            first += int64(threads * items)

    return radix_move


_KEYS = dict(size="i32", chunk="i32", blocks="i32", shift="i32", kind="i32", descending="i1")
_MOVE = dict(
    _KEYS, places="*i32", starts="*i32", totals="*i32", moved_places="*i32", index="*i64", summed="i1", first_pass="i1", last_pass="i1",
    with_values="i1",
)  # fmt: skip
radix_counts = {
    size: simt_kernel(most=MOST, variants=[dict(_KEYS, x=f"*i{8 * size}", counts="*i32")])(_counter(size))
    for size in key_of
}
radix_move = {
    size: simt_kernel(most=MOST, variants=[dict(_MOVE, x=f"*i{8 * size}", moved=f"*i{8 * size}")])(_mover(size))
    for size in key_of
}


def kernels_to_check() -> list[Any]:
    kernels: list[Any] = [*radix_counts.values(), *radix_move.values()]
    return [(kernel, variant) for kernel in kernels for variant in kernel.kernel.variants]
