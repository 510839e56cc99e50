"""What goes along the rows of segments, in numba-cuda: a thread for each column of a segment. Segments are cut to the rows that exist.

Neighbouring threads have neighbouring columns, so that rows are read in whole lines. Running sums, products and recurrences of
float32 are computed in float64, as on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

from numba import float32, float64, int64

from dynograd.kernels.build.launching_cuda import simt_kernel
from dynograd.kernels.build.simt_language import cuda

_MOST = 256  # threads of a block


@cuda.jit(device=True)
def span_of(starts, ends, rows, columns, segments):
    """(column, first row, row behind the last) of this thread; no rows where it has nothing to do."""
    item = int64(cuda.blockIdx.x) * int64(cuda.blockDim.x) + int64(cuda.threadIdx.x)
    if item >= int64(segments) * int64(columns):
        return int64(0), int64(0), int64(0)
    segment = item // int64(columns)
    first, last = max(starts[segment], int64(0)), min(ends[segment], int64(rows))
    return item - segment * int64(columns), first, max(first, last)


def _scanner(real: Any) -> Any:
    def scan_segments(values, starts, ends, result, product, backwards, rows, columns, segments):
        """Running sums, or products, of each segment's rows."""
        column, first, last = span_of(starts, ends, rows, columns, segments)
        total = float64(1) if product else float64(0)
        step = int64(0)
        while step < last - first:
            at = (last - int64(1) - step if backwards else first + step) * int64(columns) + column
            value = float64(values[at])
            total = total * value if product else total + value
            result[at] = real(total)
            step += int64(1)

    return scan_segments


def _log_scanner(real: Any) -> Any:
    def log_scan_segments(values, starts, ends, result, rows, columns, segments):
        """The logarithm of the running sum of exp of each segment's rows."""
        column, first, last = span_of(starts, ends, rows, columns, segments)
        top, total = float64(-math.inf), float64(0)
        row = first
        while row < last:
            at = row * int64(columns) + column
            value = float64(values[at])
            if value > top:
                total = total * math.exp(top - value) + float64(1)
                top = value
            elif value == top:
                if value != float64(-math.inf):
                    total += float64(1)
            elif value < top:
                total += math.exp(value - top)
            else:
                total = float64(math.nan)
            result[at] = real(top + math.log(total)) if total != float64(0) else real(-math.inf)
            row += int64(1)

    return log_scan_segments


def _recurrer(real: Any) -> Any:
    def recur_segments(values, decay, starts, ends, result, backwards, rows, columns, segments):
        """r[k] = values[k] + decay[k] * r[k - 1] along each segment, or r[k + 1] and from its last row on."""
        column, first, last = span_of(starts, ends, rows, columns, segments)
        carried = float64(0)
        step = int64(0)
        while step < last - first:
            at = (last - int64(1) - step if backwards else first + step) * int64(columns) + column
            carried = float64(values[at]) + (float64(decay[at]) * carried if step > int64(0) else float64(0))
            result[at] = real(carried)
            step += int64(1)

    return recur_segments


def _mover(real: Any) -> Any:
    def move_segments(values, starts, ends, result, by, fill, rows, columns, segments):
        """Each row `by` rows further along its segment, `fill` (0 or 1) where none arrives."""
        column, first, last = span_of(starts, ends, rows, columns, segments)
        row = first
        while row < last:
            source = row - int64(by)
            inside = source >= first and source < last
            place = source * int64(columns) + column if inside else int64(0)
            result[row * int64(columns) + column] = values[place] if inside else real(fill)
            row += int64(1)

    return move_segments


def _runner(real: Any) -> Any:
    def running_places(values, starts, ends, result, largest, rows, columns, segments):
        """Where in its segment the largest (smallest) row so far is: of equals the last; NaN stays."""
        column, first, last = span_of(starts, ends, rows, columns, segments)
        best, where = real(0), int64(0)
        row = first
        while row < last:
            at = row * int64(columns) + column
            value = values[at]
            better = value >= best if largest else value <= best
            if row == first or better or value != value:
                best, where = value, row - first
            result[at] = where
            row += int64(1)

    return running_places


_SHARED = dict(
    values="*real", starts="*i64", ends="*i64", result="*real", rows="i64", columns="i32", segments="i32", threads=_MOST
)


def _kernels(make: Any, **types: str) -> dict[int, Any]:
    """A kernel by the size of its numbers."""
    kernels = {}
    for size, real in ((4, float32), (8, float64)):
        own = {
            name: kind.replace("real", f"fp{8 * size}") if isinstance(kind, str) else kind
            for name, kind in {**_SHARED, **types}.items()
        }
        kernels[size] = simt_kernel(most=_MOST, variants=[own])(make(real))
    return kernels


scan_segments = _kernels(_scanner, product="i1", backwards="i1")
log_scan_segments = _kernels(_log_scanner)
recur_segments = _kernels(_recurrer, decay="*real", backwards="i1")
move_segments = _kernels(_mover, by="i64", fill="i32")
running_places = _kernels(_runner, result="*i64", largest="i1")


def kernels_to_check() -> list[Any]:
    families = (scan_segments, log_scan_segments, recur_segments, move_segments, running_places)
    return [
        (kernel, variant) for family in families for kernel in family.values() for variant in kernel.kernel.variants
    ]
