"""Histograms: how many elements lie between edges. There are no gradients, as in PyTorch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from math import inf, isfinite, nan, prod
from typing import Any

from dynograd.base import dtypes
from dynograd.base.shapes import check_whole
from dynograd.base.shown_names import show_in_lines
from dynograd.base.values import read_values
from dynograd.errors import DtypeError, ShapeError
from dynograd.interpreter.out_forms import write_out
from dynograd.ops.index.lookups import bincount, searchsorted
from dynograd.ops.layout.joins import stack
from dynograd.tensor.creation import full, linspace, zeros
from dynograd.tensor.tensor import Tensor

__all__ = ["histc", "histogram", "histogramdd"]

histogram_result = namedtuple("histogram", "hist bin_edges")  # type: ignore[name-match]
show_in_lines(histogram_result)
histogramdd_result = namedtuple("histogramdd", "hist bin_edges")  # type: ignore[name-match]
show_in_lines(histogramdd_result)


@read_values
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0, *, out: Any = None) -> Tensor:
    """How many elements lie in each of `bins` equal parts of [min, max], in the dtype of `input`.

    Elements outside do not count, those at `max` belong to the last part. Where `min` equals `max`, the smallest and the largest
    element are taken.

    Args:
        input: floating tensor of any shape.
        bins: how many.
        min, max: the ends.
    Returns:
        (bins,).
    Raises:
        RuntimeError: `bins` below 1, `max` below `min`, or elements that are not finite and no range.

    >>> dynograd.histc(tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    values = _checked("histc", input).reshape(-1)
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {bins}.")
    low, high = float(min), float(max)
    if low > high:
        raise RuntimeError(f"histc: max must be larger than min, got min={min} and max={max}.")
    all_inside = low == high and values.numel()
    if all_inside:
        low, high = values.min().item(), values.max().item()
    if low == high:
        low, high = low - 1, high + 1
    if not (isfinite(low) and isfinite(high)):
        raise RuntimeError(f"histc: range of [{low}, {high}] is not finite. Pass min and max.")
    wide = values if input.dtype is dtypes.float64 else values.to(dtypes.float32)
    places = ((wide - low) * bins / (high - low)).clamp(max=bins - 1)
    if not all_inside:
        places = places.where((wide >= low) & (wide <= high), bins)
    counts = bincount(places.long(), minlength=bins + 1)[:bins].to(input.dtype)
    return counts if out is None else write_out("histc", out, counts)


@read_values
def histogram(
    input: Any,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Any = None,
    density: bool = False,
    out: Any = None,
) -> histogram_result:
    """(hist, bin_edges): how many elements lie between edges.

    Args:
        input: floating tensor of any shape.
        bins: how many equal parts, or the edges themselves, from low to high. Each part has its left edge, the last one both.
        range: (low, high) of equal parts; the smallest and the largest element when left out.
        weight: what each element counts, in the shape of `input`.
        density: divide by the sum and by the widths, so that the integral is 1.
    Returns:
        A named tuple: `hist` (parts,) and `bin_edges` (parts + 1,).
    Raises:
        RuntimeError: no parts, a range that is none.
        ShapeError: a weight of another shape.

    >>> dynograd.histogram(tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    values = _checked("histogram", input)
    if weight is not None and tuple(weight.shape) != tuple(input.shape):
        raise ShapeError(
            f"histogram: weight of shape {tuple(weight.shape)} should have the shape of the input, {tuple(input.shape)}."
        )
    if not isinstance(bins, Tensor):
        check_whole("histogram", bins=bins)
    operands = [bins] if isinstance(bins, Tensor) else [int(bins)]
    hist, edges = _counted("histogram", values.reshape(-1, 1), operands, range, weight, density)
    result = histogram_result(hist, edges[0])
    return result if out is None else write_out("histogram", out, result)


@read_values
def histogramdd(
    input: Any, bins: Any, range: Sequence[float] | None = None, weight: Any = None, density: bool = False
) -> histogramdd_result:
    """(hist, bin_edges): how many points lie in each box of a grid of D dims.

    Args:
        input (*, D): points.
        bins: how many equal parts each dim has, one number for all or D; or D tensors of edges.
        range: D pairs (low, high), one after another.
        weight (*): what each point counts.
        density: divide by the sum and by the volumes.
    Returns:
        A named tuple: `hist` (one dim for each of D), and `bin_edges`, D tensors.

    >>> dynograd.histogramdd(tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [2.0, 2.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [1., 2.]])
    """
    points = _checked("histogramdd", input)
    if len(points.shape) < 2:
        raise ShapeError(
            f"histogramdd: input tensor should have at least 2 dimensions, got shape {tuple(points.shape)}."
        )
    dims = points.shape[-1]
    if weight is not None and tuple(weight.shape) != tuple(points.shape[:-1]):
        raise ShapeError(
            f"histogramdd: weight of shape {tuple(weight.shape)} should have the shape of the input without its last dim, "
            f"{tuple(points.shape[:-1])}."
        )
    if not dims:
        return histogramdd_result(full((), nan if density else 0.0, dtype=points.dtype, device=points.device), ())
    operands = list(bins) if isinstance(bins, (tuple, list)) else [bins] * dims
    if len(operands) != dims:
        raise RuntimeError(
            f"histogramdd: The size of bins must be equal to the innermost dimension of the input, got {len(operands)} for {dims}."
        )
    hist, edges = _counted("histogramdd", points.reshape(-1, dims), operands, range, weight, density)
    return histogramdd_result(hist, tuple(edges))


def _checked(who: str, input: Any) -> Tensor:
    if not input.dtype.is_floating_point:
        raise DtypeError(f"{who}: not implemented for {input.dtype}. Use input.float().")
    return input.detach()


def _counted(who: str, points: Any, bins: list[Any], range: Any, weight: Any, density: bool) -> tuple[Any, list[Any]]:
    """(hist, edges) of points (N, D)."""
    for dim, edge in enumerate(bins if isinstance(bins[0], Tensor) else ()):
        if len(edge.shape) != 1 or edge.numel() < 2:
            raise ShapeError(
                f"{who}: bins tensor should have one dimension and at least 2 elements, but got shape {tuple(edge.shape)} for dimension {dim}."
            )
        _same_dtype(who, f"bins tensor of dimension {dim}", edge, points)
    if weight is not None:
        _same_dtype(who, "weight tensor", weight, points)
    edges = [tensor.detach() for tensor in bins] if isinstance(bins[0], Tensor) else _edges(who, points, bins, range)
    counts = [edge.numel() - 1 for edge in edges]
    total = prod(counts)
    flat, inside = None, None
    for dim, edge in enumerate(edges):
        values = points[:, dim].contiguous()
        if counts[dim] < 1:
            continue
        first, last = edge[0], edge[-1]
        within = (values >= first) & (values <= last)
        place = (searchsorted(edge.contiguous(), values, right=True) - 1).clamp(max=counts[dim] - 1)
        flat = place if flat is None else flat * counts[dim] + place
        inside = within if inside is None else inside & within
    if not total or flat is None:
        return zeros(counts, dtype=points.dtype, device=points.device), edges
    flat = flat.where(inside, total)
    weights = None if weight is None else weight.detach().reshape(-1).to(dtypes.float64)
    hist = bincount(flat, weights, minlength=total + 1)[:total].reshape(counts).to(points.dtype)
    if density:
        hist = hist / hist.sum()
        for dim, edge in enumerate(edges):
            widths = edge[1:] - edge[:-1]
            hist = hist / widths.reshape([-1 if place == dim else 1 for place in _dims(counts)])
    return hist, edges


def _same_dtype(who: str, name: str, tensor: Tensor, points: Tensor) -> None:
    if tensor.dtype is not points.dtype:
        raise DtypeError(
            f"{who}: input tensor and {name} should have the same dtype, but got input with dtype {points.dtype} and {name} with dtype "
            f"{tensor.dtype}. Convert it with .to({points.dtype})."
        )


def _dims(counts: list[int]) -> list[int]:
    return [place for place, _ in enumerate(counts)]


def _edges(who: str, points: Any, bins: list[int], range: Any) -> list[Any]:
    for dim, count in enumerate(bins):
        if count <= 0:
            raise RuntimeError(f"{who}: bins must be > 0, but got {count} for dimension {dim}.")
    if range is None:
        if points.shape[0]:
            ends = stack([points.amin(0), points.amax(0)], 1).tolist()
        else:
            ends = [[0.0, 1.0]] * len(bins)
    else:
        if len(range) != 2 * len(bins):
            raise RuntimeError(
                f"{who}: for a {len(bins)}-dimensional histogram range should have {2 * len(bins)} elements, but got {len(range)}."
            )
        ends = [list(range[2 * dim : 2 * dim + 2]) for dim in _dims(bins)]
    edges = []
    for dim, (low, high) in enumerate(ends):
        if not -inf < low <= high < inf:
            raise RuntimeError(
                f"{who}: range [{low}, {high}] of dimension {dim} is not finite, or min exceeds max. Pass range=(low, high)."
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(linspace(low, high, bins[dim] + 1, dtype=points.dtype, device=points.device))
    return edges


for _method in (histc, histogram):
    setattr(Tensor, _method.__name__, _method)
