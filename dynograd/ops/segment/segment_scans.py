"""What goes along the rows of segments: running sums and products, recurrences, shifts. Segments are as in `ops/segment/segments.py`."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.kernels import kernel
from dynograd.ops.op import Gradients, op
from dynograd.ops.reduce.reductions import exp_difference


@op(linear=True, saves="starts ends")
def segment_cumsum(values: Array, starts: Array, ends: Array, backwards: bool = False) -> Array:
    """(M, D): the running sums of each segment's rows, from its last row on with `backwards`; 0 in rows of no segment."""
    return kernel("segment_scans", "scan_segments", values)(values, starts, ends, "sum", backwards)


@segment_cumsum.backward
def segment_cumsum_backward(g: Any, saved: Any, backwards: Any) -> Gradients:
    return (segment_cumsum(g, saved.starts, saved.ends, not backwards), None, None)


@op(linear=True, saves="starts ends", inner=True)
def segment_move(values: Array, starts: Array, ends: Array, step: int) -> Array:
    """(M, D): each row `step` rows further along its segment (towards its front where negative), 0 where none arrives."""
    return kernel("segment_scans", "move_segments", values)(values, starts, ends, step, 0)


@segment_move.backward
def segment_move_backward(g: Any, saved: Any, step: Any) -> Gradients:
    return (segment_move(g, saved.starts, saved.ends, -step), None, None)


@op(saves="starts ends", inner=True)
def segment_behind_one(values: Array, starts: Array, ends: Array) -> Array:
    """(M, D): 1, and behind it all rows of the segment but the last."""
    return kernel("segment_scans", "move_segments", values)(values, starts, ends, 1, 1)


@segment_behind_one.backward
def segment_behind_one_backward(g: Any, saved: Any) -> Gradients:
    return (segment_move(g, saved.starts, saved.ends, -1), None, None)


@op(saves="decay starts ends output", inner=True)
def segment_recurrence(values: Array, decay: Array, starts: Array, ends: Array, backwards: bool = True) -> Array:
    """(M, D): r[k] = values[k] + decay[k] * r[k + 1] along each segment, from its last row on; r[k - 1] where not `backwards`."""
    return kernel("segment_scans", "recur_segments", values)(values, decay, starts, ends, backwards)


@segment_recurrence.backward
def segment_recurrence_backward(g: Any, saved: Any, backwards: Any) -> Gradients:
    starts, ends, step = saved.starts, saved.ends, 1 if backwards else -1
    back = segment_recurrence(g, segment_move(saved.decay, starts, ends, step), starts, ends, not backwards)
    decay = back * segment_move(saved.output, starts, ends, -step) if saved.needs(1) else None
    return (back, decay, None, None)


@op(saves="values starts ends output", inner=True)
def segment_cumprod(values: Array, starts: Array, ends: Array) -> Array:
    """(M, D): the running products of each segment's rows."""
    return kernel("segment_scans", "scan_segments", values)(values, starts, ends, "prod")


@segment_cumprod.backward
def segment_cumprod_backward(g: Any, saved: Any) -> Gradients:
    """Row k: the product before it, times r[k] = g[k] + x[k + 1] r[k + 1]. Right with any number of zeros."""
    starts, ends = saved.starts, saved.ends
    rest = segment_recurrence(g, segment_move(saved.values, starts, ends, -1), starts, ends)
    return (segment_behind_one(saved.output, starts, ends) * rest, None, None)


@op(saves="values starts ends output", inner=True)
def segment_logcumsumexp(values: Array, starts: Array, ends: Array) -> Array:
    """(M, D): the logarithm of the running sum of exp of each segment's rows."""
    return kernel("segment_scans", "log_scan_segments", values)(values, starts, ends)


@segment_logcumsumexp.backward
def segment_logcumsumexp_backward(g: Any, saved: Any) -> Gradients:
    """exp(x[k] - y[k]) r[k] with r[k] = g[k] + exp(y[k] - y[k + 1]) r[k + 1]: no exponent is above 0."""
    x, y, starts, ends = saved.values, saved.output, saved.starts, saved.ends
    ratios = exp_difference(y, segment_move(y, starts, ends, -1))  # of a segment's last row nobody asks
    return (exp_difference(x, y) * segment_recurrence(g, ratios, starts, ends), None, None)
