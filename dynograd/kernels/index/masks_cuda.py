"""Masks and index arrays that ops need as constants, on CudaArrays."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import operations
from dynograd.kernels.build import faults_cuda
from dynograd.kernels.index import masks_cpu, masks_triton
from dynograd.kernels.loss import losses_triton
from dynograd.kernels.reduce.extremes_cuda import amax

_BOOL = numpy.dtype(numpy.bool_)
_BLOCK = 1024  # elements of a program, 8 for each thread of Triton's 4 warps


def length_mask(steps: int, lengths: Any) -> Any:
    """(T, B) bool: whether row b still runs in step t."""
    places = _line(steps, lengths).reshape((steps, 1))
    return operations.elementwise("lt", places, lengths)


def causal_mask(rows: int, columns: int, like: Any = None) -> Any:
    """(rows, columns) bool: True on and below the diagonal that starts in the upper left corner."""
    index = 0 if like is None else like.device_index
    mask = cuda_arrays.empty((rows, columns), _BOOL, index)
    masks_triton.causal((-(-mask.size // _BLOCK),), mask, mask.size, columns, BLOCK=_BLOCK)
    return mask


def window_mask(rows: int, columns: int, shift: int, left: int, right: int, like: Any = None) -> Any:
    """(rows, columns) bool: row i sees columns i + shift - left to i + shift + right; all on a side where that is -1."""
    mask = masks_cpu.window_mask(rows, columns, shift, left, right)
    return cuda_arrays.from_numpy(mask, 0 if like is None else like.device_index)


def wrong_target(target: Any, classes: int, ignored: int) -> Any:
    """(value, position) of a class number outside 0 to classes - 1 that is not `ignored`, or None.

    Without DYNOGRAD_CUDA_SYNC=1 the host does not wait: None, and the device reports it later (see `faults_cuda`).
    """
    if not target.size:
        return None
    if faults_cuda.immediate():
        return masks_cpu.wrong_target(target.numpy(), classes, ignored)
    site = faults_cuda.site("class numbers of a loss", target, 0, classes)
    labels = target if target.is_contiguous else target.copy()
    losses_triton.wrong_labels(
        (-(-target.size // _BLOCK),), labels, faults_cuda.word(target.device_index), target.size, classes, ignored, site,
        BLOCK=_BLOCK,
    )  # fmt: skip
    return None


def class_mask(target: Any, classes: int) -> Any:
    """(N, C) bool: True at each row's class number."""
    return operations.elementwise("eq", target.reshape((target.size, 1)), _line(classes, target))


def multilabel_masks(target: Any) -> Any:
    """(named, places, other) of (N, C) lists of class numbers that end at the first -1.

    named: which entries of the list count; places: the list with 0 beyond its end; other: which classes it does not name.
    """
    labels = target if target.is_contiguous else target.copy()
    rows, columns = target.shape
    index = target.device_index
    named, other = (cuda_arrays.empty(target.shape, _BOOL, index) for _ in range(2))
    places = cuda_arrays.empty(target.shape, target.dtype, index)
    masks_triton.multilabel((rows,), labels, named, places, other, columns, BLOCK=1 << max(columns - 1, 1).bit_length())
    return named, places, other


def above_minus_infinity(mask: Any) -> Any:
    """Where an additive mask lets anything through."""
    return mask != float("-inf")


def any_in_row(allowed: Any) -> Any:
    """(..., 1) bool: whether anything in the last dim is True. The host does not wait to find out that all are."""
    return amax(allowed, allowed.ndim - 1, True)


def _line(count: int, like: Any) -> Any:
    """0, 1, ... in the dtype and on the device of `like`."""
    line = cuda_arrays.empty((count,), like.dtype, like.device_index)
    masks_triton.counting((-(-count // _BLOCK),), line, count, BLOCK=_BLOCK)
    return line
