"""Numba kernels of class numbers: their range, and the weights of those that count. The losses are row programs."""

from dynograd.kernels.build.compiling_numba import compiled


@compiled
def label_range(labels):
    """(lowest, highest) of flat class numbers, of which there is one at least."""
    low = high = labels[0]
    for index in range(labels.size):
        label = labels[index]
        low = label if label < low else low
        high = label if label > high else high
    return low, high


@compiled
def total_weight(labels, weight, ignored):
    """The sum of the weights of the labels that count."""
    total = 0.0
    for r in range(labels.size):
        if labels[r] != ignored:
            total += weight[labels[r]]
    return total
