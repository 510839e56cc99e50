"""Rows that fit a block of the GPU are sorted in its shared memory: a thread sorts a few elements, then runs are merged in pairs."""

from __future__ import annotations

from typing import Any

from numba import int32, int64, uint16, uint32, uint64

from dynograd.kernels.build.launching_cuda import simt_kernel
from dynograd.kernels.build.simt_language import cuda
from dynograd.kernels.sort.sorting_keys_simt import key_of

ITEMS = 9  # of a thread: odd, so that the threads of a warp read from different banks
MOST = 1024  # threads of a block
_LAST = 0xFFFFFFFFFFFFFFFF


def bytes_of(size: int, threads: int) -> int:
    """Bytes of shared memory for a block that sorts elements of this size."""
    return threads * ITEMS * (10 if size == 8 else 8)


@cuda.jit(device=True)
def first_of_run(keys, first, second, diagonal, run):
    """How many of the first `diagonal` elements of two merged runs are of the first run."""
    low = max(int32(0), int32(diagonal - run))
    high = min(diagonal, run)
    while low < high:
        middle = int32((low + high) >> 1)
        if keys[first + middle] <= keys[second + diagonal - int32(1) - middle]:
            low = int32(middle + 1)
        else:
            high = middle
    return low


def _rows_sorter(size: int) -> Any:
    """A key of up to 32 bits lies in one number with its place, so that all are different; one of 64 bits beside it."""
    wide = size == 8
    key_of_element = key_of[size]

    def sort_rows(
        x, places, values, index, rows, size, count, group, kind, descending, places_in, with_values
    ):  # fmt: skip
        """The first `count` elements of each sorted row, and where they stood; `places_in`: at `places`. `group` threads share a row."""
        keys = cuda.shared.array(0, uint64)
        ranks = cuda.shared.array(0, uint16)  # they lie behind the keys
        mine = cuda.local.array(ITEMS, uint64)
        mine_ranks = cuda.local.array(ITEMS, uint16)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        lane = int32(thread % group)
        base = int32((thread - lane) * ITEMS)
        behind = int32(threads * (ITEMS * 4))
        row = int64(cuda.blockIdx.x) * int64(threads // group) + int64(thread // group)
        start = row * int64(size)
        for i in range(ITEMS):
            e = int32(i * group + lane)
            key = uint64(_LAST)
            if e < size and row < rows:
                key = uint64(key_of_element(x[start + int64(e)], kind, descending))
                if not wide:
                    key = uint64(key << uint64(32)) | uint64(e)
            keys[base + e] = key
            if wide:
                ranks[behind + base + e] = uint16(e)
        cuda.syncthreads()
        own = int32(base + lane * ITEMS)
        for i in range(1, ITEMS):
            key = keys[own + i]
            rank = uint16(0)
            if wide:
                rank = ranks[behind + own + i]
            j = int32(own + i)
            while j > own and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                if wide:
                    ranks[behind + j] = ranks[behind + j - 1]
                j = int32(j - 1)
            keys[j] = key
            if wide:
                ranks[behind + j] = rank
        run = int32(ITEMS)
        while run < size:
            cuda.syncthreads()
            before = int32((lane * ITEMS) % (run * 2))
            first = int32(own - before)
            second = int32(first + run)
            i = first_of_run(keys, first, second, before, run)
            j = int32(before - i)
            for n in range(ITEMS):
                from_second = i >= run
                if i < run and j < run:
                    from_second = keys[second + j] < keys[first + i]
                at = int32(first + i)
                if from_second:
                    at = int32(second + j)
                    j = int32(j + 1)
                else:
                    i = int32(i + 1)
                mine[n] = keys[at]
                if wide:
                    mine_ranks[n] = ranks[behind + at]
            cuda.syncthreads()
            for n in range(ITEMS):
                keys[own + n] = mine[n]
                if wide:
                    ranks[behind + own + n] = mine_ranks[n]
            run = int32(run * 2)
        cuda.syncthreads()
        if row < rows:
            for i in range(ITEMS):
                e = int32(i * group + lane)
                if e < count:
                    if wide:
                        rank_of = int64(ranks[behind + base + e])
                    else:
                        rank_of = int64(uint32(keys[base + e]))
                    out = row * int64(count) + int64(e)
                    if with_values:
                        values[out] = x[start + rank_of]
                    if places_in:
                        rank_of = int64(places[start + rank_of])
                    index[out] = rank_of

    return sort_rows


_ROW = dict(
    places="*i32", index="*i64", rows="i32", size="i32", count="i32", group="i32", kind="i32", descending="i1", places_in="i1",
    with_values="i1",
)  # fmt: skip
sort_rows = {
    size: simt_kernel(most=MOST, variants=[dict(_ROW, x=f"*i{8 * size}", values=f"*i{8 * size}")])(_rows_sorter(size))
    for size in key_of
}  # by the size of an element


def kernels_to_check() -> list[Any]:
    return [(kernel, variant) for kernel in sort_rows.values() for variant in kernel.kernel.variants]  # type: ignore[attr-defined]
