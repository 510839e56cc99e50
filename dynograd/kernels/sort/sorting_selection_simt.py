"""The first few elements of a row on the GPU, and its k-th, without sorting it: by one digit of 8 bits after the other, from the highest.

A block has a segment of a row, which it reads once for each digit (from its cache, where a segment is short) and twice more.
"""

from __future__ import annotations

from typing import Any

from numba import int32, int64, uint32

from dynograd.kernels.build.launching_cuda import simt_kernel
from dynograd.kernels.build.simt_language import cuda
from dynograd.kernels.sort.sorting_keys_simt import ALL_LANES, KEYS, key_of, lanes_alike, sums_of_digits

THREADS = 512  # of a block
MOST = 1024  # threads that there is machine code for: with 512 ptxas spares registers so much that it spills two


def _finder(size: int) -> Any:
    key_of_element, key_type, highest = key_of[size], KEYS[size], 8 * size - 8

    @cuda.jit(device=True)
    def kth_key(x, start, count, k, kind, descending):
        """(the key that is k-th, from 0, of `count` elements, how many elements with it are needed to have the first k + 1)."""
        counts = cuda.shared.array(256, int32)
        sums = cuda.shared.array(256, int32)
        chosen = cuda.shared.array(2, int32)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        prefix = key_type(0)
        left = int32(k)
        shift = int32(highest)
        while shift >= 0:
            for d in range(thread, 256, threads):
                counts[d] = int32(0)
            cuda.syncthreads()
            at = int32(thread)
            while at - thread < count:  # the same for all threads: they meet at each element
                digit = int32(256)
                if at < count:
                    key = key_of_element(x[start + int64(at)], kind, descending)
                    if (key_type(key >> key_type(shift)) >> key_type(8)) == prefix:
                        digit = int32(key_type(key >> key_type(shift)) & 255)
                before, alike = lanes_alike(digit, int32(thread % 32))
                if before == 0 and digit < 256:
                    cuda.atomic.add(counts, digit, alike)
                at = int32(at + threads)
            cuda.syncthreads()
            if thread < 32:
                sums_of_digits(counts, sums, thread)
            cuda.syncthreads()
            for d in range(thread, 256, threads):
                if sums[d] <= left and left < sums[d] + counts[d]:
                    chosen[0] = int32(d)
                    chosen[1] = int32(left - sums[d])
            cuda.syncthreads()
            prefix = key_type(key_type(prefix << key_type(8)) | key_type(chosen[0]))
            left = int32(chosen[1])
            shift = int32(shift - 8)
        return prefix, int32(left + 1)

    return kth_key


_kth_key = {size: _finder(size) for size in key_of}


def _selector(size: int) -> Any:
    key_of_element, kth_key = key_of[size], _kth_key[size]

    def select_rows(x, places, result, found_places, size, segments, k, kind, descending, places_in):
        """The first k elements of each segment of each row, of equals the first, in the order of their places; `places_in`: at `places`."""
        less_of_warp = cuda.shared.array(32, int32)
        alike_of_warp = cuda.shared.array(32, int32)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        lane, warp, warps = int32(thread % 32), int32(thread // 32), int32(threads // 32)
        row, segment = int64(cuda.blockIdx.x) // int64(segments), int64(cuda.blockIdx.x) % int64(segments)
        first = int64(size) * segment // int64(segments)
        count = int32(int64(size) * (segment + 1) // int64(segments) - first)
        start = row * int64(size) + first
        kth, needed = kth_key(x, start, count, int32(k - 1), kind, descending)
        # A warp has a stretch of the segment: it counts, sums up what the warps before have, and writes.
        stretch = int32((count + threads - 1) // threads * 32)
        begin = min(count, int32(warp * stretch))
        end = min(count, int32(begin + stretch))
        earlier = uint32((uint32(1) << uint32(lane)) - uint32(1))
        less = int32(0)
        alike = int32(0)
        at = int32(begin)
        while at < end:
            is_less = False
            is_alike = False
            if at + lane < end:
                key = key_of_element(x[start + int64(at + lane)], kind, descending)
                is_less = key < kth
                is_alike = key == kth
            less = int32(less + cuda.popc(uint32(cuda.ballot_sync(ALL_LANES, is_less))))
            alike = int32(alike + cuda.popc(uint32(cuda.ballot_sync(ALL_LANES, is_alike))))
            at = int32(at + 32)
        if lane == 0:
            less_of_warp[warp] = less
            alike_of_warp[warp] = alike
        cuda.syncthreads()
        less = int32(0)
        alike = int32(0)
        for other in range(warps):
            if other < warp:
                less = int32(less + less_of_warp[other])
                alike = int32(alike + alike_of_warp[other])
        at = int32(begin)
        while at < end:
            is_less = False
            is_alike = False
            bits = x[start + int64(min(at + lane, count - 1))]
            if at + lane < end:
                key = key_of_element(bits, kind, descending)
                is_less = key < kth
                is_alike = key == kth
            those_less = uint32(cuda.ballot_sync(ALL_LANES, is_less))
            those_alike = uint32(cuda.ballot_sync(ALL_LANES, is_alike))
            alike_before = int32(alike + cuda.popc(those_alike & earlier))
            if is_less or (is_alike and alike_before < needed):
                slot = less + cuda.popc(those_less & earlier) + min(alike_before, needed)
                out = int64(cuda.blockIdx.x) * int64(k) + int64(slot)
                result[out] = bits
                if places_in:
                    found_places[out] = places[start + int64(at + lane)]
                else:
                    found_places[out] = int32(first + int64(at + lane))
            less = int32(less + cuda.popc(those_less))
            alike = int32(alike + cuda.popc(those_alike))
            at = int32(at + 32)

    return select_rows


def _kth_finder(size: int) -> Any:
    key_of_element, kth_key, missing_key = key_of[size], _kth_key[size], KEYS[size]((1 << 8 * size) - 1)

    def kth_of_rows(x, values, index, size, k, rule, kind):
        """The k-th element of each row, from 0, of equals the first, and where it stands.

        `rule` 1: the lower of the two middle elements, or NaN where there is one; 2: the lower middle one of what is not NaN.
        """
        missing_of_all = cuda.shared.array(1, int32)
        place_of_first = cuda.shared.array(1, int32)
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        start = int64(cuda.blockIdx.x) * int64(size)
        if thread == 0:
            missing_of_all[0] = int32(0)
            place_of_first[0] = int32(size)
        cuda.syncthreads()
        if rule > 0:
            missing = int32(0)
            if kind > 1:
                for e in range(thread, size, threads):
                    if key_of_element(x[start + int64(e)], kind, False) == missing_key:
                        missing = int32(missing + 1)
            if missing > 0:
                cuda.atomic.add(missing_of_all, 0, missing)
            cuda.syncthreads()
            missing = missing_of_all[0]
            k = int32((size - 1) // 2)
            if rule == 1 and missing > 0:
                k = int32(size - missing)
            if rule == 2:
                k = int32(max(size - missing - 1, 0) // 2)
        kth, _ = kth_key(x, start, size, k, kind, False)
        for e in range(thread, size, threads):
            if key_of_element(x[start + int64(e)], kind, False) == kth:
                cuda.atomic.min(place_of_first, 0, int32(e))
                break
        cuda.syncthreads()
        if thread == 0:
            place = int64(place_of_first[0])
            index[int64(cuda.blockIdx.x)] = place
            values[int64(cuda.blockIdx.x)] = x[start + place]

    return kth_of_rows


def _kth_of_sorted(size: int) -> Any:
    key_of_element, missing_key = key_of[size], KEYS[size]((1 << 8 * size) - 1)

    @cuda.jit(device=True)
    def first_place(x, start, end, kth, kind):
        """The first of the sorted elements before `end` whose key is `kth` or greater."""
        first, last = int64(0), int64(end)
        while first < last:
            middle = (first + last) >> int64(1)
            if key_of_element(x[start + middle], kind, False) < kth:
                first = middle + int64(1)
            else:
                last = middle
        return first

    def kth_of_sorted(x, order, values, index, rows, size, k, rule, kind):
        """As `kth_of_rows`, of rows that are sorted; `order`: where their elements stood."""
        row = int64(cuda.blockIdx.x) * int64(cuda.blockDim.x) + int64(cuda.threadIdx.x)
        if row < rows:
            start = row * int64(size)
            place = int64(k)
            if rule > 0:
                there = int64(size)
                if kind > 1:
                    there = first_place(x, start, size, missing_key, kind)
                place = (int64(size) - int64(1)) >> int64(1)
                if rule == 1 and there < size:
                    place = there
                if rule == 2:
                    place = max(there - int64(1), int64(0)) >> int64(1)
            kth = key_of_element(x[start + place], kind, False)
            place = first_place(x, start, place, kth, kind)
            values[row] = x[start + place]
            index[row] = order[start + place]

    return kth_of_sorted


_SELECT = dict(
    places="*i32", found_places="*i32", size="i32", segments="i32", k="i32", kind="i32", descending="i1", places_in="i1"
)
_KTH = dict(index="*i64", size="i32", k="i32", rule="i32", kind="i32")


def _made(kernel: Any, other: str, types: dict[str, str]) -> dict[int, Any]:
    """By the size of an element."""
    return {
        size: simt_kernel(most=MOST, variants=[{**types, "x": f"*i{8 * size}", other: f"*i{8 * size}"}])(kernel(size))
        for size in key_of
    }


select_rows = _made(_selector, "result", _SELECT)
kth_of_rows = _made(_kth_finder, "values", _KTH)
kth_of_sorted = _made(_kth_of_sorted, "values", {**_KTH, "order": "*i64", "rows": "i32"})


def kernels_to_check() -> list[Any]:
    kernels = [*select_rows.values(), *kth_of_rows.values(), *kth_of_sorted.values()]
    return [(kernel, variant) for kernel in kernels for variant in kernel.kernel.variants]
