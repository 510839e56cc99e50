"""What goes along the rows of segments: running sums, products and extremes, recurrences, shifts. NumPy arrays (M, D) of float32 and float64.

Segments are as in `segments_cpu`: rows starts[k] to ends[k], cut to those that exist. Rows of no segment give 0.
"""

from __future__ import annotations

import numpy as np

from dynograd.kernels.build.compiled_kernels import compiled_for
from dynograd.kernels.segment.segments_cpu import along_segments

_JOINS = {"sum": 0, "prod": 1}


def scan_segments(values, starts, ends, join, backwards=False):
    """(M, D): the running "sum" or "prod" of each segment's rows, from its last row on with `backwards`."""
    kernels = compiled_for(values.size)
    if kernels is None:
        result = np.zeros(values.shape, values.dtype)
        step = -1 if backwards else 1
        for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
            part = slice(max(first, 0), max(last, 0))
            (np.add if join == "sum" else np.multiply).accumulate(values[part][::step], 0, None, result[part][::step])
        return result
    run = kernels["segment_scans.scan_segments"]
    return _along(run, values, starts, ends, 4, options=(_JOINS[join], bool(backwards)))


def log_scan_segments(values, starts, ends):
    """(M, D): the logarithm of the running sum of exp of each segment's rows."""
    from dynograd.kernels.segment.segment_scans_numba import log_scan_segments

    return _along(log_scan_segments, values, starts, ends, 32)


def recur_segments(values, decay, starts, ends, backwards):
    """(M, D): r[k] = given[k] + decay[k] * r[k - 1] along each segment; with `backwards` r[k + 1], from its last row on."""
    from dynograd.kernels.segment.segment_scans_numba import recur_segments

    return _along(recur_segments, values, starts, ends, 4, np.ascontiguousarray(decay), options=(bool(backwards),))


def move_segments(values, starts, ends, step, fill):
    """(M, D): each row `step` rows further along its segment, `fill` where none arrives."""
    from dynograd.kernels.segment.segment_scans_numba import move_segments

    return _along(move_segments, values, starts, ends, 1, options=(int(step), values.dtype.type(fill)))


def _along(run, values, starts, ends, effort, *more, options=()):
    values = np.ascontiguousarray(values)
    work = effort * values.size
    return along_segments(run, values.shape, values.dtype, starts, ends, work, values, *more, options=options)
