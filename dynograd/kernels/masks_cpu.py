"""Masks and index arrays that ops need as constants, on NumPy arrays."""

from __future__ import annotations

import numpy as np

__all__ = ["causal_mask", "length_mask", "wrong_target"]


def length_mask(steps, lengths):
    """(T, B) bool: whether row b still runs in step t."""
    return np.arange(steps)[:, None] < lengths


def causal_mask(rows, columns):
    """(rows, columns) bool: True on and below the diagonal that starts in the upper left corner."""
    return np.tri(rows, columns, dtype=bool)


def wrong_target(target, classes, ignored):
    """(value, position) of the first class number outside 0 to classes - 1 that is not `ignored`, or None."""
    if not target.size or (target.min() >= 0 and target.max() < classes):
        return None
    places = np.argwhere(((target < 0) | (target >= classes)) & (target != ignored))
    if not len(places):
        return None
    return int(target[tuple(places[0])]), tuple(places[0].tolist())
