"""Numba kernels of class numbers: their range, and the weights of those that count. The losses are row programs."""

from dynograd.kernels.build.compiling_numba import compiled
from dynograd.kernels.small.objects_numba import LONG, elements_of, entry, in_order, letter_of, longs, ndim_of


@entry
def labels_fit(labels, classes):
    """Whether all class numbers (int64, in order) are from 0 to `classes` - 1; False as well where they lie otherwise."""
    if letter_of(labels) != LONG or not in_order(labels):
        return False
    count = elements_of(labels, 0, ndim_of(labels))
    numbers, fit = longs(labels, count), True
    for index in range(count):
        fit &= 0 <= numbers[index] < classes
    return fit


@compiled
def total_weight(labels, weight, ignored):
    """The sum of the weights of the labels that count."""
    total = 0.0
    for r in range(labels.size):
        if labels[r] != ignored:
            total += weight[labels[r]]
    return total
