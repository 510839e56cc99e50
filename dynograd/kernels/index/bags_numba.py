"""Sums of the rows of a table that are named in bags, in one pass: the rows are not copied before they are summed."""

import numpy as np

from dynograd.kernels.build.compiling_numba import chunked


@chunked(noalias=True, exact=True)
def sums_of_bags(weight, index, starts, padding, is_mean, out, start, stop):
    """out[b] = the sum (or mean) of weight[index[m]] for starts[b] <= m < starts[b + 1] and index[m] != padding; items are bags."""
    width = weight.shape[1]
    for bag in range(start, stop):
        total = out[bag]
        for column in range(width):
            total[column] = 0
        count = 0
        for m in range(starts[bag], starts[bag + 1]):
            place = index[np.uint64(m)]
            if place != padding:
                count += 1
                row = weight[np.uint64(place)]
                for column in range(width):
                    total[column] += row[column]
        if is_mean and count > 1:
            factor = total.dtype.type(1 / count)
            for column in range(width):
                total[column] *= factor
