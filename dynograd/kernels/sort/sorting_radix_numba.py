"""Numba kernels that sort one long row digit by digit, in parts: the order is the same for every number of parts.

A word is some bits of a key (see `sorting_numba`) above the place of its number in the row, so that one array is moved. Parts are
equal pieces of the row. A digit is counted in each part, and each part then knows where its words of each digit go.
"""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked, compiled
from dynograd.kernels.sort.sorting_numba import _key
from dynograd.kernels.tiles.lines_numba import LINE, copy_line


@compiled(inline=True)
def _piece(n, part, parts):
    return n * part // parts, n * (part + 1) // parts


@chunked
def spans(bits, keys, highest, infinity, turned, result, start, stop):
    """found[part] = the lowest and the largest key of each part, and which bits differ from those of the first key of all."""
    kind = keys.dtype.type
    first = kind(_key(bits[0], highest, infinity, turned))
    for part in range(start, stop):
        begin, end = _piece(bits.size, part, len(result))
        lowest = largest = kind(_key(bits[begin], highest, infinity, turned))
        differing = first ^ first
        for i in range(begin, end):
            key = kind(_key(bits[np.uint64(i)], highest, infinity, turned))
            lowest, largest = min(lowest, key), max(largest, key)
            differing |= key ^ first
        result[part, 0], result[part, 1], result[part, 2] = lowest, largest, differing


@chunked
def make_words(bits, keys, highest, infinity, turned, lowest, drop, mask, place_bits, again, words, start, stop):
    """Words of the keys' bits `mask` above the lowest `drop`; `again`: in the order of the places that `words` has already."""
    own = (np.uint64(1) << place_bits) - np.uint64(1)
    for i in range(start, stop):
        place = (words[np.uint64(i)] if again else np.uint64(i)) & own
        source = place if again else np.uint64(i)
        key = np.uint64(keys.dtype.type(_key(bits[source], highest, infinity, turned)))
        words[np.uint64(i)] = ((((key - lowest) >> drop) & mask) << place_bits) | place


@chunked
def count_digits(words, by, mask, counts, start, stop):
    """counts[part, digit] = how many words of the part have that digit."""
    for part in range(start, stop):
        begin, end = _piece(words.size, part, len(counts))
        own = counts[part]
        own[:] = 0
        for i in range(begin, end):
            own[(words[np.uint64(i)] >> by) & mask] += 1


@chunked(noalias=True)
def move_words(words, by, mask, firsts, moved, start, stop):
    """Moves each word to where firsts[part, digit] says, and on from there.

    Words of a digit wait until a line is full: so many places to write to, evenly apart, would throw each other out of the cache.
    """
    digits = firsts.shape[1]
    waiting, places = np.empty(digits * LINE, words.dtype), np.empty(digits, np.int64)
    last = np.uint64(LINE - 1)
    for part in range(start, stop):
        begin, end = _piece(words.size, part, len(firsts))
        own = firsts[part]
        for digit in range(digits):
            places[digit] = own[digit]
        for i in range(begin, end):
            word = words[np.uint64(i)]
            digit = (word >> by) & mask
            place = np.uint64(places[digit])
            places[digit] = np.int64(place) + 1
            slot = place & last
            waiting[digit * np.uint64(LINE) + slot] = word
            if slot == last:
                line = np.int64(place) - LINE + 1
                if line >= own[digit]:
                    copy_line(moved, line, waiting, np.int64(digit) * LINE)
                else:
                    for k in range(own[digit], line + LINE):
                        moved[np.uint64(k)] = waiting[digit * np.uint64(LINE) + np.uint64(k - line)]
        for digit in range(digits):
            line = places[digit] // LINE * LINE
            for k in range(max(line, own[digit]), places[digit]):
                moved[np.uint64(k)] = waiting[np.uint64(digit * LINE + k - line)]


@chunked
def take_apart(words, bits, infinity, turned, lowest, drop, place_bits, whole, values, places, start, stop):
    """The places of sorted words and, unless `values` is empty, the numbers, as unsigned bits.

    Words that have the `whole` key are turned back into numbers, but for zeros and NaN, which have several forms.
    """
    kind = values.dtype.type
    mask = (np.uint64(1) << place_bits) - np.uint64(1)
    negative = kind(1) << kind(values.itemsize * 8 - 1)
    largest = ~(negative ^ negative)
    for i in range(start, stop):
        word = words[np.uint64(i)]
        place = word & mask
        places[np.uint64(i)] = np.int64(place)
        if values.size:
            key = kind(((word >> place_bits) << drop) + lowest)
            if turned:
                key = kind(~key)
            if not whole or (infinity != 0 and key in (negative, largest)):
                values[np.uint64(i)] = kind(bits[place])
            elif infinity != 0 and key < negative:
                values[np.uint64(i)] = kind(kind(0) - key)
            else:
                values[np.uint64(i)] = key ^ negative
