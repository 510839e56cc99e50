"""Rows of segments by their order: where they are, and picking them. Segments are as in `ops/segment/segments.py`."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.kernels import kernel
from dynograd.ops.op import Gradients, op


@op(differentiable=False, inner=True, partly_at_once="lengths of segments are checked")
def segment_places(values: Array, starts: Array, ends: Array, how: str, k: int = 0) -> Array:
    """Where, counted from its first row, the rows of each segment are that `how` and `k` name, in each column for itself.

    "ascending", "descending", "cummax", "cummin": (M, D), a place for each row; "largest", "smallest": (K * k, D), k for each segment;
    "kth" (from 0), "median", "nanmedian", "max", "min": (K, D).
    """
    return kernel("segment_orders", "places_of_segments", values)(values, starts, ends, how, k)


@op(linear=True, saves="values.shape places starts ends", inner=True)
def segment_gather(values: Array, places: Array, starts: Array, ends: Array, per: int = 0) -> Array:
    """The rows at `places` of each segment, column by column: `per` for each segment (K * per, D), or one for each of its rows (M, D)."""
    return kernel("segment_orders", "gather_segments", values)(values, places, starts, ends, per)


@segment_gather.backward
def segment_gather_backward(g: Any, saved: Any, per: Any) -> Gradients:
    result = segment_scatter(g, saved.places, saved.starts, saved.ends, per, saved.values_shape[0])
    return (result, None, None, None)


@op(linear=True, saves="places starts ends", inner=True)
def segment_scatter(g: Array, places: Array, starts: Array, ends: Array, per: int, rows: int) -> Array:
    """(rows, D): `g` added at `places` of each segment, as `segment_gather` picks them."""
    return kernel("segment_orders", "scatter_segments", g)(g, places, starts, ends, per, rows)


@segment_scatter.backward
def segment_scatter_backward(g: Any, saved: Any, per: Any, rows: Any) -> Gradients:
    return (segment_gather(g, saved.places, saved.starts, saved.ends, per), None, None, None)
