"""Reductions and softmaxes of rows: packed elements as (total, D), rows as segments. Nothing is padded, empty rows have their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from dynograd.base import dtypes
from dynograd.errors import IndexRangeError
from dynograd.ragged.invoking import run
from dynograd.ragged.partitions import Partition
from dynograd.tensor.creation import zeros
from dynograd.tensor.tensor import Tensor

__all__ = [
    "cumprod",
    "cumsum",
    "extreme",
    "log_softmax",
    "logcumsumexp",
    "logsumexp",
    "mean_rows",
    "picked",
    "places",
    "refuse_empty",
    "softmax",
    "spread_flat",
    "squares",
    "sum_onwards",
    "sum_rows",
    "variance",
]

_KERNELS = (dtypes.float32, dtypes.float64)


def bounds(part: Partition, x: Any) -> tuple[Any, Any]:
    return part.tensor("starts", x.device), part.tensor("ends", x.device)


def sum_rows(x: Any, part: Partition) -> Any:
    """(B, D): the sum of each row's elements; integers and booleans in int64, half types accumulate in float32."""
    kind = x.dtype
    if kind in _KERNELS:
        return run("segment_sum", x, *bounds(part, x))
    if kind.is_complex:
        pairs = run("view_as_real", x)
        flat = run("reshape", pairs, (x.shape[0], 2 * x.shape[1]))
        return run("view_as_complex", run("view", sum_rows(flat, part), (part.count, x.shape[1], 2)))
    if kind.is_floating_point:
        return run("to_copy", sum_rows(run("to_copy", x, dtypes.float32), part), kind)
    base = zeros(part.count, x.shape[1], dtype=dtypes.int64, device=x.device)
    return base.index_add(0, part.tensor("rows", x.device), x.long())


def spread_flat(rows: Any, part: Partition) -> Any:
    """(total, D): row i for each element of row i."""
    if rows.dtype in _KERNELS:
        return run("segment_spread", rows, *bounds(part, rows), part.total)
    return run("index", rows, [part.tensor("rows", rows.device)], (0,))


def refuse_empty(who: str, part: Partition) -> None:
    if part.count and int(part.lengths.min()) == 0:
        row = int(part.lengths.argmin())
        raise IndexRangeError(
            f"{who}: Expected reduction dim to be specified for input.numel() == 0: row {row} is empty, and nothing has no extreme. Leave it "
            f"out (x[x.lengths() > 0]), or give it an element."
        )


def extreme(x: Any, part: Partition, which: str) -> Any:
    """(B, D): the "max" or "min" of each row; -inf or inf of an empty one."""
    kind = x.dtype
    if kind in _KERNELS:
        return run("segment_extreme", x, *bounds(part, x), which)
    if kind.is_floating_point:
        return run("to_copy", extreme(run("to_copy", x, dtypes.float32), part, which), kind)
    if kind is dtypes.bool:
        return extreme(run("to_copy", x, dtypes.float32), part, which) > 0
    base = zeros(part.count, x.shape[1], dtype=kind, device=x.device)
    index = part.tensor("rows", x.device).unsqueeze(1).expand(tuple(x.shape))
    return run("scatter_reduce.public", base, 0, index, x, f"a{which}", include_self=False)


def all_true(x: Any, part: Partition) -> Any:
    """(B, D) bool: whether all elements of each row are true."""
    return extreme(run("to_copy", x, dtypes.float32), part, "min") > 0


def places(x: Any, part: Partition, how: str, k: int = 0) -> Any:
    """Where in its row the elements are that `how` names (see `segment_places`): int64, (total, D), (B * k, D) or (B, D)."""
    return run("segment_places", x.detach(), *bounds(part, x), how, k)


def picked(x: Any, part: Partition, places: Any, per: int = 0) -> Any:
    """The elements of each row at `places`: `per` for each row, or one for each of its elements."""
    if x.dtype.is_floating_point and x.dtype not in _KERNELS:
        return run("to_copy", picked(run("to_copy", x, dtypes.float32), part, places, per), x.dtype)
    return run("segment_gather", x, places, *bounds(part, x), per)


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(x, part, ...)` for all floating dtypes: half types are computed in float32."""

    @wraps(function)
    def of_any(x: Any, part: Partition, *options: Any) -> Any:
        if x.dtype in _KERNELS:
            return function(x, part, *options)
        return run("to_copy", function(run("to_copy", x, dtypes.float32), part, *options), x.dtype)

    return of_any


@widened
def logsumexp(x: Any, part: Partition) -> Any:
    """(B, D); -inf of an empty row."""
    return run("segment_logsumexp", x, *bounds(part, x))


@widened
def softmax(x: Any, part: Partition) -> Any:
    return run("segment_softmax", x, *bounds(part, x))


@widened
def cumsum(x: Any, part: Partition) -> Any:
    """(total, D): the running sums of each row."""
    return run("segment_cumsum", x, *bounds(part, x), False)


def cumsum_of_integers(x: Any, part: Partition) -> Tensor:
    """(total, D) int64: the running sums over all rows, which are exact, without what they were where the row begins."""
    sums: Tensor = run("cumsum", x, 0)
    before = run("cat", [zeros(1, x.shape[1], dtype=sums.dtype, device=x.device), sums], 0)
    firsts = run("index", before, [part.tensor("starts", x.device)], (0,))
    return sums - run("index", firsts, [part.tensor("rows", x.device)], (0,))


@widened
def sum_onwards(x: Any, part: Partition) -> Any:
    """(total, D): the running sums of each row from its end."""
    return run("segment_cumsum", x, *bounds(part, x), True)


@widened
def cumprod(x: Any, part: Partition) -> Any:
    """(total, D): the running products of each row."""
    return run("segment_cumprod", x, *bounds(part, x))


@widened
def logcumsumexp(x: Any, part: Partition) -> Any:
    return run("segment_logcumsumexp", x, *bounds(part, x))


@widened
def log_softmax(x: Any, part: Partition) -> Any:
    return run("segment_combine", x, run("neg", logsumexp(x, part)), *bounds(part, x), "add")


def lengths_column(part: Partition, like: Any) -> Any:
    """(B, 1) the lengths in the dtype of `like`."""
    kind = like.dtype if like.dtype.is_floating_point else dtypes.float32
    kind = dtypes.float64 if kind is dtypes.float64 else dtypes.float32
    return part.kept(
        ("column", kind.name, str(like.device)),
        lambda: run("to_copy", part.tensor("lengths", like.device), kind).reshape(-1, 1),
    )


def mean_rows(x: Any, part: Partition) -> Any:
    """(B, D); NaN of an empty row."""
    kind = x.dtype
    if kind.is_floating_point and kind not in _KERNELS:
        return run("to_copy", mean_rows(run("to_copy", x, dtypes.float32), part), kind)
    return sum_rows(x, part) / lengths_column(part, x)


def squares(x: Any, part: Partition) -> Any:
    """(B, D): the sum of the squared sizes of each row's elements."""
    if x.dtype in _KERNELS:
        return run("segment_squares", x, *bounds(part, x), False)
    if x.dtype.is_floating_point:
        return run("to_copy", squares(run("to_copy", x, dtypes.float32), part), x.dtype)
    return sum_rows(run("real", x * x.conj()) if x.dtype.is_complex else x * x, part)


def variance(x: Any, part: Partition, correction: float) -> Any:
    """(B, D): squares of the distances from the mean, divided by the length - correction."""
    kind = x.dtype
    if kind.is_floating_point and kind not in _KERNELS:
        return run("to_copy", variance(run("to_copy", x, dtypes.float32), part, correction), kind)
    if kind.is_complex:
        centered = x - spread_flat(mean_rows(x, part), part)
        total = run("real", sum_rows(centered * centered.conj(), part))
    else:
        total = run("segment_squares", x, *bounds(part, x), True)
    return total / (lengths_column(part, total) - correction).clamp(min=0.0)
