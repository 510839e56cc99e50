"""Masks and index arrays that ops need as constants, on NumPy arrays."""

from __future__ import annotations

import numpy as np

from dynograd.kernels.small.few_cpu import entries


def length_mask(steps, lengths):
    """(T, B) bool: whether row b still runs in step t."""
    return np.arange(steps)[:, None] < lengths


def causal_mask(rows, columns, like=None):
    """(rows, columns) bool: True on and below the diagonal that starts in the upper left corner; on the device of `like`."""
    return np.tri(rows, columns, dtype=bool)


def window_mask(rows, columns, shift, left, right, like=None):
    """(rows, columns) bool: row i sees columns i + shift - left to i + shift + right; all on a side where that is -1."""
    away = np.arange(columns) - np.arange(shift, rows + shift)[:, None]
    seen = away <= right if right >= 0 else np.ones(away.shape, bool)
    return seen & (away >= -left) if left >= 0 else seen


def wrong_target(target, classes, ignored):
    """(value, position) of the first class number outside 0 to classes - 1 that is not `ignored`, or None."""
    if not target.size:
        return None
    if type(target) is np.ndarray and entries["losses.labels_fit"](id(target), classes):
        return None
    if np.minimum.reduce(target, None) >= 0 and np.maximum.reduce(target, None) < classes:
        return None
    places = np.argwhere(((target < 0) | (target >= classes)) & (target != ignored))
    if not len(places):
        return None
    return int(target[tuple(places[0])]), tuple(places[0].tolist())


def class_mask(target, classes):
    """(N, C) bool: True at each row's class number."""
    return target[:, None] == np.arange(classes)


def multilabel_masks(target):
    """(named, places, other) of (N, C) lists of class numbers that end at the first -1.

    named: which entries of the list count; places: the list with 0 beyond its end; other: which classes it does not name.
    """
    named = np.cumsum(target < 0, axis=1) == 0
    places = np.where(named, target, 0)
    other = np.ones(target.shape, bool)
    rows, columns = np.nonzero(named)
    other[rows, target[rows, columns]] = False
    return named, places, other


def above_minus_infinity(mask):
    """Where an additive mask lets anything through."""
    return mask != -np.inf


def any_in_row(allowed):
    """(..., 1) bool: whether anything in the last dim is True; None when that is so for all rows."""
    any_allowed = allowed.any(axis=-1, keepdims=True)
    return None if any_allowed.all() else any_allowed
