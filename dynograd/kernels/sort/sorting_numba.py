"""Numba kernels that sort and select rows, by unsigned keys in the order of the numbers: NaN above all, 0.0 beside -0.0.

Everything here is stable: of equals the one with the lower index comes first, so there is one right answer.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled

_SHORT = 24  # rows up to this long are sorted by insertion
_RUN = 16  # sorted by counting, for each, how many are smaller: no branches
_MERGED = 512  # and up to this long by merging sorted runs; longer ones digit by digit
_LONGEST_DIGIT = 8


@compiled(inline=True)
def _key(bits, highest, infinity, turned):
    """An unsigned key as a signed number's bits; `infinity` is 0 for integers. `highest` is the sign bit; `turned` reverses."""
    value = bits
    if infinity != 0:
        size = bits & ~highest
        if size > infinity:
            return (highest ^ highest) if turned else ~(highest ^ highest)
        value = highest - bits if bits < 0 else bits
    value = value ^ highest
    return ~value if turned else value


@chunked
def order_of_rows(
    x, bits, keys, own_places, longest, bounds, items, highest, infinity, turned, values, places, start, stop
):
    """places[row] = the indices that sort the rows, and values[row] the numbers in that order (unless `values` is empty).

    Rows have `longest` elements, or at most so many, from bounds[row] to bounds[row + 1]. `bits` is `x` as signed integers, `keys` an
    empty array of the unsigned dtype, `own_places` one of a dtype that numbers up to `longest` fit in. Items are rows, or rows
    items[item] to items[item + 1].
    """
    own, spare = np.empty(longest, keys.dtype), np.empty(longest, keys.dtype)
    index, other = np.empty(longest, own_places.dtype), np.empty(longest, own_places.dtype)
    counts = np.empty(1 << _LONGEST_DIGIT, np.int64)
    most = min(longest, _MERGED) if keys.itemsize == 4 and longest > _SHORT else 0
    words, others = np.empty(most, np.uint64), np.empty(most, np.uint64)
    for row in range(items[start] if items.size else start, items[stop] if items.size else stop):
        begin, n = (bounds[row], bounds[row + 1] - bounds[row]) if bounds.size else (row * longest, longest)
        if most and _SHORT < n <= _MERGED:  # key and place in one word: one comparison, and equals keep their order
            for i in range(n):
                key = np.uint64(keys.dtype.type(_key(bits[np.uint64(begin + i)], highest, infinity, turned)))
                words[np.uint64(i)] = (key << np.uint64(32)) | np.uint64(i)
            ordered = _order_words(words, others, n)
            for i in range(n):
                places[np.uint64(begin + i)] = np.int64(ordered[np.uint64(i)] & np.uint64(0xFFFFFFFF))
            if values.size:
                for i in range(begin, begin + n):
                    values[np.uint64(i)] = x[np.uint64(begin + places[np.uint64(i)])]
            continue
        for i in range(n):
            own[np.uint64(i)] = keys.dtype.type(_key(bits[np.uint64(begin + i)], highest, infinity, turned))
            index[np.uint64(i)] = i
        swapped = False
        if n <= _SHORT:
            _insert(own, index, 0, n)
        elif n <= _MERGED:
            swapped = _merge(own, index, spare, other, n)
        else:
            swapped = _by_digits(own, index, spare, other, counts, n)
        if swapped:
            for i in range(n):
                places[np.uint64(begin + i)] = other[np.uint64(i)]
        else:
            for i in range(n):
                places[np.uint64(begin + i)] = index[np.uint64(i)]
        if values.size:
            for i in range(begin, begin + n):
                values[np.uint64(i)] = x[np.uint64(begin + places[np.uint64(i)])]


@compiled
def _first_places(keys, by, mask, counts, n):
    """counts[digit] = where the keys with that digit begin when they are sorted by it."""
    counts[: np.int64(mask) + 1] = 0
    for i in range(n):
        counts[np.uint64((keys[np.uint64(i)] >> by) & mask)] += 1
    total = 0
    for digit in range(np.int64(mask) + 1):
        total, counts[digit] = total + counts[digit], total


@compiled
def _from_lowest(keys, n):
    """Makes keys distances from the lowest one; (which bits vary, how many bits a digit is to have)."""
    lowest = largest = keys[0]
    for i in range(n):
        lowest, largest = min(lowest, keys[np.uint64(i)]), max(largest, keys[np.uint64(i)])
    varying = keys.dtype.type(0)
    for i in range(n):
        key = keys[np.uint64(i)] - lowest
        keys[np.uint64(i)] = key
        varying |= key
    size = 0
    while size < keys.itemsize * 8 and (largest - lowest) >> keys.dtype.type(size):
        size += 1
    digits = max((size + _LONGEST_DIGIT - 1) // _LONGEST_DIGIT, 1)
    return varying, max((size + digits - 1) // digits, 1)


@compiled
def _order_words(words, spare, n):
    """Sorts distinct words by merging sorted runs; the one of the two arrays that has the result."""
    for begin in range(0, n, _RUN):
        count = min(_RUN, n - begin)
        for i in range(begin, begin + count):
            word, rank = words[np.uint64(i)], 0
            if count == _RUN:
                for k in range(_RUN):
                    rank += words[np.uint64(begin + k)] < word
            else:
                for k in range(count):
                    rank += words[np.uint64(begin + k)] < word
            spare[np.uint64(begin + rank)] = word
    words, spare = spare, words
    run = _RUN
    while run < n:
        for begin in range(0, n, 2 * run):
            left, right, k = begin, min(n, begin + run), begin
            middle, end = right, min(n, begin + 2 * run)
            while left < middle and right < end:
                left_word, right_word = words[np.uint64(left)], words[np.uint64(right)]
                first = left_word < right_word
                spare[np.uint64(k)] = left_word if first else right_word
                left += first
                right += not first
                k += 1
            while left < middle:
                spare[np.uint64(k)] = words[np.uint64(left)]
                left, k = left + 1, k + 1
            while right < end:
                spare[np.uint64(k)] = words[np.uint64(right)]
                right, k = right + 1, k + 1
        words, spare = spare, words
        run *= 2
    return words


@compiled
def _insert(keys, index, begin, end):
    for i in range(begin + 1, end):
        key, place = keys[i], index[i]
        k = i - 1
        while k >= begin and keys[np.uint64(k)] > key:
            keys[np.uint64(k + 1)] = keys[np.uint64(k)]
            index[np.uint64(k + 1)] = index[np.uint64(k)]
            k -= 1
        keys[np.uint64(k + 1)], index[np.uint64(k + 1)] = key, place


@compiled
def _merge(keys, index, spare, other, n):
    """Sorts by merging runs; whether the result is in `spare` and `other`."""
    run = 12
    for begin in range(0, n, run):
        _insert(keys, index, begin, min(n, begin + run))
    swapped = False
    while run < n:
        for begin in range(0, n, 2 * run):
            middle, end = min(n, begin + run), min(n, begin + 2 * run)
            left, right = begin, middle
            for k in range(begin, end):
                take_left = right >= end or (left < middle and keys[np.uint64(left)] <= keys[np.uint64(right)])
                source = left if take_left else right
                spare[np.uint64(k)], other[np.uint64(k)] = keys[np.uint64(source)], index[np.uint64(source)]
                left += take_left
                right += not take_left
        keys, spare = spare, keys
        index, other = other, index
        run *= 2
        swapped = not swapped
    return swapped


@compiled
def _by_digits(keys, index, spare, other, counts, n):
    """Sorts by one digit of the keys after another, from the lowest; whether the result is in `spare` and `other`. Changes the keys."""
    swapped = False
    kind = keys.dtype.type
    varying, width = _from_lowest(keys, n)
    mask = kind((1 << width) - 1)
    for shift in range(0, keys.itemsize * 8, width):
        by = kind(shift)
        if not (varying >> by) & mask:  # the same digit everywhere
            continue
        _first_places(keys, by, mask, counts, n)
        for i in range(n):
            key = keys[np.uint64(i)]
            digit = np.uint64((key >> by) & mask)
            place = counts[digit]
            counts[digit] = place + 1
            spare[np.uint64(place)], other[np.uint64(place)] = key, index[np.uint64(i)]
        keys, spare = spare, keys
        index, other = other, index
        swapped = not swapped
    return swapped


@chunked
def top_of_rows(x, bits, keys, longest, bounds, items, k, highest, infinity, turned, values, places, start, stop):
    """places[row], values[row] = the k first of what `order_of_rows` gives, of rows that have so many. Items as there.

    A heap holds the best so far, the worst of them on top; 64 elements at a time are compared with it.
    """
    best, index = np.empty(k, keys.dtype), np.empty(k, np.int64)
    for row in range(items[start] if items.size else start, items[stop] if items.size else stop):
        begin, n = (bounds[row], bounds[row + 1] - bounds[row]) if bounds.size else (row * longest, longest)
        for i in range(k):
            key = keys.dtype.type(_key(bits[begin + i], highest, infinity, turned))
            best[i], index[i] = key, i
            child = i
            while child > 0:
                parent = (child - 1) // 2
                if best[child] < best[parent] or (best[child] == best[parent] and index[child] < index[parent]):
                    break
                best[child], best[parent] = best[parent], best[child]
                index[child], index[parent] = index[parent], index[child]
                child = parent
        first = k
        while first < n:
            end = min(n, first + 64)
            if end - first == 64:
                worst, hits = x[begin + index[0]], np.int32(0)
                if turned:
                    for i in range(first, end):
                        value = x[np.uint64(begin + i)]
                        hits |= np.int32((value > worst) | (value != value))
                else:
                    for i in range(first, end):
                        hits |= np.int32((x[np.uint64(begin + i)] < worst) | (worst != worst))
                if not hits:
                    first = end
                    continue
            worst = x[begin + index[0]]
            for i in range(first, end):
                value = x[np.uint64(begin + i)]
                if turned:
                    if not (value > worst or value != value):
                        continue
                elif not (value < worst or worst != worst):
                    continue
                key = keys.dtype.type(_key(bits[np.uint64(begin + i)], highest, infinity, turned))
                if key < best[0]:
                    best[0], index[0] = key, i
                    _sift(best, index, k)
                    worst = x[begin + index[0]]
            first = end
        for left in range(k - 1, -1, -1):
            places[row * k + left] = index[0]
            values[row * k + left] = x[begin + index[0]]
            best[0], index[0] = best[left], index[left]
            _sift(best, index, left)


@compiled
def _sift(best, index, count):
    """Puts the top of a heap of `count` where it belongs: the largest key, of equals the highest index, comes to the top."""
    parent = 0
    while True:
        child = 2 * parent + 1
        if child >= count:
            return
        other = child + 1
        if other < count and (
            best[other] > best[child] or (best[other] == best[child] and index[other] > index[child])
        ):
            child = other
        if best[child] < best[parent] or (best[child] == best[parent] and index[child] < index[parent]):
            return
        best[child], best[parent] = best[parent], best[child]
        index[child], index[parent] = index[parent], index[child]
        parent = child


@chunked
def kth_of_rows(x, bits, keys, longest, bounds, items, k, rule, highest, infinity, values, places, start, stop):
    """places[row] = the first index of the element values[row] that is k-th (from 0) in the order of a row, which is not empty.

    `rule` 1: the lower median, or NaN where there is one; 2: the lower median of what is not NaN. Items as in `order_of_rows`.
    """
    own, left = np.empty(longest, keys.dtype), np.empty(longest, keys.dtype)
    counts = np.empty(256, np.int64)
    nan = keys.dtype.type(~(highest ^ highest))
    low_byte = keys.dtype.type(255)
    for row in range(items[start] if items.size else start, items[stop] if items.size else stop):
        begin, n = (bounds[row], bounds[row + 1] - bounds[row]) if bounds.size else (row * longest, longest)
        if n == 0:
            continue
        unordered, lowest, largest = 0, nan, keys.dtype.type(0)
        for i in range(n):
            key = keys.dtype.type(_key(bits[np.uint64(begin + i)], highest, infinity, False))
            own[np.uint64(i)] = key
            unordered += key == nan
            lowest, largest = min(lowest, key), max(largest, key)
        for i in range(n):
            left[np.uint64(i)] = own[np.uint64(i)] - lowest
        rank = (n - 1) // 2 if rule else k
        if rule and infinity != 0 and unordered:
            rank = n - 1 if rule == 1 else max(n - unordered - 1, 0) // 2
        count = n
        for shift in range(keys.itemsize * 8 - 8, -1, -8):
            if count <= 16:
                break
            by = keys.dtype.type(shift)
            if not (largest - lowest) >> by:
                continue
            counts[:] = 0
            for i in range(count):
                counts[np.uint64((left[np.uint64(i)] >> by) & low_byte)] += 1
            digit = 0
            while rank >= counts[digit]:
                rank -= counts[digit]
                digit += 1
            if counts[digit] == count:
                continue
            kept = 0
            for i in range(count):
                key = left[np.uint64(i)]
                left[np.uint64(kept)] = key
                kept += ((key >> by) & low_byte) == digit
            count = kept
        for i in range(1, min(count, 17)):  # more than 16 are left only where all are equal
            key = left[i]
            j = i - 1
            while j >= 0 and left[np.uint64(j)] > key:
                left[np.uint64(j + 1)] = left[np.uint64(j)]
                j -= 1
            left[np.uint64(j + 1)] = key
        key = (left[rank] if count <= 16 else left[0]) + lowest
        place = 0
        while own[np.uint64(place)] != key:
            place += 1
        places[row] = place
        values[row] = x[begin + place]
