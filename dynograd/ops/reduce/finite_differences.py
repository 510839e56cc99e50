"""Derivatives of sampled functions by differences of neighbours."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.shapes import normalize_dim
from dynograd.errors import ShapeError
from dynograd.ops.layout.joins import cat
from dynograd.ops.layout.splits import narrow
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import composed

__all__ = ["gradient"]


@composed(out=None)
def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> tuple[Array, ...]:
    """Estimates the derivative of a sampled function along each dim by second-order differences of neighbours.

    Args:
        input: tensor of samples.
        spacing: the distance of samples: a number for all dims, a list with one for each, or a list of vectors of coordinates.
        dim: an int or several; all dims by default.
        edge_order: 1 or 2, the order of the one-sided differences at the two ends.
    Returns:
        a tuple of one tensor in the shape of `input` for each dim.
    Raises:
        ShapeError: spacing that does not fit, dims twice, or fewer than edge_order + 1 samples along a dim.

    >>> dynograd.gradient(tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    rank = len(input.shape)
    if edge_order not in (1, 2):
        raise ShapeError(f"gradient: only edge_order=1 and edge_order=2 are supported, got {edge_order}.")
    dims = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    places = [normalize_dim("gradient", dim, rank) for dim in dims]
    if len(set(places)) != len(places):
        raise ShapeError(f"gradient: dim {tuple(dims)} appears multiple times in the list of dims.")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(places)
    if len(spacings) != len(places):
        raise ShapeError(
            f"gradient: expected spacing to have one entry for each of {len(places)} dims, got {len(spacings)}."
        )
    for place, step in zip(places, spacings, strict=True):
        if input.shape[place] < edge_order + 1:
            raise ShapeError(
                f"gradient: expected each dimension size to be at least edge_order+1 = {edge_order + 1}, got {input.shape[place]} at "
                f"dim {place}."
            )
        if _is_coordinates(step) and tuple(step.shape) != (input.shape[place],):
            raise ShapeError(
                f"gradient: expected the coordinates of dim {place} to be a vector of {input.shape[place]} numbers, got shape "
                f"{tuple(step.shape)}."
            )
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        input = input.to(dtypes.get_default_dtype())
    return tuple([_derivative(input, place, step, edge_order) for place, step in zip(places, spacings, strict=True)])


def _is_coordinates(spacing: Any) -> bool:
    return hasattr(spacing, "shape") and len(spacing.shape) > 0


def _derivative(values: Any, dim: int, spacing: Any, edge_order: int) -> Array:
    count = values.shape[dim]

    def at(start: int, length: int) -> Array:
        return narrow(values, dim, start, length)

    if _is_coordinates(spacing):
        if not (spacing.dtype.is_floating_point or spacing.dtype.is_complex):
            spacing = spacing.to(dtypes.get_default_dtype())
        along = (-1, *(1,) * (values.ndim - dim - 1))
        steps = reshaped(narrow(spacing, 0, 1, count - 1) - narrow(spacing, 0, 0, count - 1), along)
    else:
        steps = None

    def step(start: int, length: int) -> Array | float:
        return spacing if steps is None else narrow(steps, 0, start, length)

    if count > 2:
        first_step, second_step = step(0, count - 2), step(1, count - 2)
        if steps is None:
            inner = [(at(2, count - 2) - at(0, count - 2)) / (2 * spacing)]
        else:
            slopes = (
                (at(1, count - 2) - at(0, count - 2)) / first_step,
                (at(2, count - 2) - at(1, count - 2)) / second_step,
            )
            inner = [(slopes[0] * second_step + slopes[1] * first_step) / (first_step + second_step)]
    else:
        inner = []
    first = (at(1, 1) - at(0, 1)) / step(0, 1)
    last = (at(count - 1, 1) - at(count - 2, 1)) / step(count - 2, 1)
    if edge_order == 2:
        first_step, second_step = step(0, 1), step(1, 1)
        first = first + (first - (at(2, 1) - at(1, 1)) / second_step) * first_step / (first_step + second_step)
        first_step, second_step = step(count - 3, 1), step(count - 2, 1)
        last = last + (last - (at(count - 2, 1) - at(count - 3, 1)) / first_step) * second_step / (
            first_step + second_step
        )
    return cat([first, *inner, last], dim)
