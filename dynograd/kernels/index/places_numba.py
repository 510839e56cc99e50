"""Numba kernels that work out places: the limits of an index, where elements named along each dim lie, where a mask is true."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked

BLOCK = 4096  # elements of a mask or an index that are looked at together


@chunked
def bounds(index, limits, start, stop):
    """found[i] = smallest and largest of the i-th 4096 elements of a vector."""
    for i in range(start, stop):
        low = high = index[i * BLOCK]
        for place in range(i * BLOCK, min(index.size, (i + 1) * BLOCK)):
            value = index[np.uint64(place)]
            low = min(low, value)
            high = max(high, value)
        limits[i, 0], limits[i, 1] = low, high


@chunked(noalias=True)
def join_places(index, size, first, out, outside, start, stop):
    """out = out * size + index (just index when `first`); outside[i] is not 0 where the i-th 4096 hold a number outside -size .. size."""
    keep = 0 if first else size
    for i in range(start, stop):
        wrong = np.int64(0)
        for m in range(i * BLOCK, min(index.size, (i + 1) * BLOCK)):
            place = index[np.uint64(m)]
            place += size & (place >> 63)
            wrong |= place | (size - 1 - place)  # one of them is negative
            out[np.uint64(m)] = (0 if first else out[np.uint64(m)]) * keep + place
        if wrong < 0:
            outside[i] = 1


@chunked
def count_true(mask, counts, start, stop):
    """counts[i] = how many of the i-th 4096 elements of a vector of 0 and 1 are 1."""
    for i in range(start, stop):
        total = np.int32(0)
        for place in range(i * BLOCK, min(mask.size, (i + 1) * BLOCK)):
            total += np.int32(mask[np.uint64(place)])
        counts[i] = total


@chunked(noalias=True)
def true_places(mask, starts, out, start, stop):
    """Where a vector of 0 and 1 is 1; the places of the i-th 4096 elements go to out[starts[i]:], without a branch for each."""
    own = np.empty(BLOCK + 1, np.int64)
    for i in range(start, stop):
        total = 0
        for place in range(i * BLOCK, min(mask.size, (i + 1) * BLOCK)):
            own[np.uint64(total)] = place
            total += np.int64(mask[np.uint64(place)])
        begin = starts[i]
        for k in range(total):
            out[np.uint64(begin + k)] = own[np.uint64(k)]


@chunked(noalias=True)
def split_places(places, shape, out, start, stop):
    """out[i] = places[i], an ascending row-major position over `shape`, as one number along each dim; items are places."""
    ndim = shape.size
    width, begin = shape[ndim - 1], np.int64(0)
    lead, target = np.zeros(ndim, np.int64), out.reshape(-1)
    for i in range(start, stop):
        place = places[np.uint64(i)]
        if place - begin >= width:  # in another row than the one before
            rest = place // width
            begin = rest * width
            for dim in range(ndim - 2, -1, -1):
                lead[dim] = rest % shape[dim]
                rest //= shape[dim]
        at = i * ndim
        for dim in range(ndim - 1):
            target[np.uint64(at + dim)] = lead[np.uint64(dim)]
        target[np.uint64(at + ndim - 1)] = place - begin
