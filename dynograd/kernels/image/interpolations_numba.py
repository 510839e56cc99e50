"""Numba kernel of resampling: a sparse matrix along the middle dim of (outer, size, inner) arrays."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked


@chunked(noalias=True)
def weighted_sums(x, starts, places, weights, out, start, stop):
    """out[:, i] = sum of weights[t] * x[:, places[t]] over the t from starts[i] to starts[i + 1]; items are (outer, i)."""
    width, size, inner = x.shape[1], out.shape[1], x.shape[2]
    source, target = x.reshape(-1), out.reshape(-1)
    o, i = start // size, start % size
    for item in range(start, stop):
        first, last = starts[i], starts[i + 1]
        if inner == 1:
            total = x.dtype.type(0)
            for t in range(first, last):
                total += weights[np.uint64(t)] * source[np.uint64(o * width + places[np.uint64(t)])]
            target[np.uint64(item)] = total
        elif last - first == 2:
            element, two = weights[first], weights[first + 1]
            at, beside, into = (
                (o * width + places[first]) * inner,
                (o * width + places[first + 1]) * inner,
                item * inner,
            )
            for j in range(inner):
                target[np.uint64(into + j)] = element * source[np.uint64(at + j)] + two * source[np.uint64(beside + j)]
        else:
            into = item * inner
            for j in range(inner):
                target[np.uint64(into + j)] = 0
            for t in range(first, last):
                weight, at = weights[t], (o * width + places[t]) * inner
                for j in range(inner):
                    target[np.uint64(into + j)] += weight * source[np.uint64(at + j)]
        i += 1
        if i == size:
            i, o = 0, o + 1
