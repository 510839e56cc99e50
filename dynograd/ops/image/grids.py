"""Sampling images at places given by a grid: `grid_sample` and `affine_grid`, made of gathers and products.

A place in [-1, 1] of each spatial dim; the grid's last dim holds x (the last dim of the image) first.
"""

from __future__ import annotations

import itertools
import warnings
from math import prod
from typing import Any

from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.errors import ShapeError, user_level
from dynograd.ops.elementwise.choices import where
from dynograd.ops.op import composed
from dynograd.ops.row import Row

__all__ = ["affine_grid", "grid_sample", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"]

FAMILY = Row(out=None, ragged="groups")

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@composed()
def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Array:
    """`nn.functional.grid_sample` with its modes as numbers: 0, 1, 2 for bilinear, nearest, bicubic and zeros, border, reflection.

    Args:
        input (N, C, H, W) or (N, C, D, H, W): images or volumes.
        grid (N, H', W', 2) or (N, D', H', W', 3): places from -1 to 1.
        interpolation_mode: 0, 1 or 2.
        padding_mode: 0, 1 or 2.
        align_corners: as in `grid_sample`.
    Returns:
        (N, C, H', W') or (N, C, D', H', W').

    >>> dynograd.grid_sampler(tensor([[[[1.0, 3.0]]]]), dynograd.zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[2.]]]])
    """
    return grid_sample(input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], bool(align_corners))


@composed()
def grid_sampler_2d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Array:
    """`grid_sampler` of images (N, C, H, W).

    Args:
        input (N, C, H, W): images.
        grid (N, H', W', 2): places (x, y) from -1 to 1.
        interpolation_mode: 0, 1 or 2.
        padding_mode: 0, 1 or 2.
        align_corners: as in `grid_sample`.
    Returns:
        (N, C, H', W').

    >>> dynograd.grid_sampler_2d(tensor([[[[1.0, 3.0]]]]), dynograd.zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[2.]]]])
    """
    _check_rank("grid_sampler_2d", input, 4)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@composed()
def grid_sampler_3d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Array:
    """`grid_sampler` of volumes (N, C, D, H, W).

    Args:
        input (N, C, D, H, W): volumes.
        grid (N, D', H', W', 3): places (x, y, z) from -1 to 1.
        interpolation_mode: 0 or 1.
        padding_mode: 0, 1 or 2.
        align_corners: as in `grid_sample`.
    Returns:
        (N, C, D', H', W').

    >>> dynograd.grid_sampler_3d(tensor([[[[[1.0, 3.0]]]]]), dynograd.zeros(1, 1, 1, 1, 3), 0, 0, False)
    tensor([[[[[2.]]]]])
    """
    _check_rank("grid_sampler_3d", input, 5)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _check_rank(name: str, input: Any, rank: int) -> None:
    if len(input.shape) != rank:
        raise ShapeError(f"{name}: expected input of {rank} dims (N, C, ...), got shape {tuple(input.shape)}.")


@composed(functional=True)
def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Array:
    """The values of `input` at the places of `grid`, interpolated.

    Args:
        input (N, C, H, W) or (N, C, D, H, W): images or volumes.
        grid (N, H', W', 2) or (N, D', H', W', 3): places (x, y) or (x, y, z); -1 and 1 are the outer pixels' centres with
            `align_corners`, else their edges.
        mode: "bilinear" (trilinear for volumes), "nearest" or, for images, "bicubic".
        padding_mode: what lies outside: "zeros", the nearest pixel ("border"), or the mirrored image ("reflection").
        align_corners: whether -1 and 1 are the centres of the outer pixels, instead of their edges; None: False.
    Returns:
        (N, C, H', W') or (N, C, D', H', W').
    Raises:
        ShapeError: input and grid do not fit.
        ValueError: an unknown mode or padding mode.

    >>> image = tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> dynograd.nn.functional.grid_sample(image, dynograd.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[2.5000]]]])
    """
    _check(input, grid, mode, padding_mode)
    if align_corners is None:
        warnings.warn(
            "grid_sample: align_corners is False by default (since 1.3.0); pass it to say which you mean.",
            stacklevel=user_level(),
        )
    align = bool(align_corners)
    sizes = tuple(input.shape[2:])
    places = [
        ((grid[..., -1 - dim] + 1) / 2 * (size - 1)) if align else ((grid[..., -1 - dim] + 1) * size - 1) / 2
        for dim, size in enumerate(sizes)
    ]
    if mode == "bicubic":
        taps = [_cubic_taps(place) for place in places]
        taps = [
            [(_inside(at, size, padding_mode, align), weight) for at, weight in each] for each, size in zip(taps, sizes)
        ]
    else:
        places = [_inside(place, size, padding_mode, align) for place, size in zip(places, sizes)]
        taps = [_linear_taps(place) if mode == "bilinear" else _nearest_tap(place) for place in places]
    flat, count = input.reshape(*input.shape[:2], prod(sizes)), tuple(grid.shape[1:-1])
    total: Any = 0
    for corner in itertools.product(*taps):
        total = total + _at(flat, sizes, corner)
    return total.reshape(*input.shape[:2], *count)


def _at(flat: Any, sizes: tuple[int, ...], corner: Any) -> Array:
    """(N, C, places): the values at whole places, times their weights; 0 outside."""
    index: Any = 0
    inside: Any = True
    weight: Any = None
    for (at, share), size in zip(corner, sizes):
        fits = (at >= 0) & (at <= size - 1)
        index = index * size + where(fits, at, 0.0).to(dtypes.int64)
        inside = fits & inside
        if share is not None:
            weight = share if weight is None else weight * share
    batch, channels = flat.shape[:2]
    count = prod(index.shape[1:])
    result = flat.gather(2, index.reshape(batch, 1, count).expand(batch, channels, count))
    keep = inside.reshape(batch, 1, count)
    if weight is not None:
        result = result * where(keep, weight.reshape(batch, 1, count).to(result.dtype), 0.0)
    return where(keep, result, 0.0)


def _nearest_tap(place: Any) -> list[Any]:
    """The weight is 1, whose gradient is 0, where the grid is to have one."""
    share = where(place == place, 1.0, place) if place.requires_grad else None
    return [(place.detach().round(), share)]


def _linear_taps(place: Any) -> list[Any]:
    low = place.detach().floor()
    share = place - low
    return [(low, 1 - share), (low + 1, share)]


def _cubic_taps(place: Any) -> list[Any]:
    # Keys' cubic with a = -0.75, as in interpolate
    a, low = -0.75, place.detach().floor()
    t = place - low
    u = 1 - t
    weights = [
        ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
        ((a + 2) * t - (a + 3)) * t * t + 1,
        ((a + 2) * u - (a + 3)) * u * u + 1,
        ((a * (u + 1) - 5 * a) * (u + 1) + 8 * a) * (u + 1) - 4 * a,
    ]
    return [(low + shift, weight) for shift, weight in zip((-1, 0, 1, 2), weights)]


def _inside(place: Any, size: int, padding_mode: str, align: bool) -> Array:
    """Places brought into the image as the padding says; without gradient where they were held at the border."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        start, span = (0.0, float(size - 1)) if align else (-0.5, float(size))
        if span == 0:
            return place * 0
        away = (place - start).abs()
        turns = (away.detach() / span).floor()
        rest = away - turns * span
        place = where(turns % 2 == 0, rest, span - rest) + start
    free = (place > 0) & (place < size - 1)
    return where(free, place, place.detach().clamp(min=0, max=size - 1))


def _check(input: Any, grid: Any, mode: str, padding_mode: str) -> None:
    if mode not in _MODES:
        raise ValueError(f"grid_sample: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'.")
    if padding_mode not in _PADDINGS:
        raise ValueError(
            f"grid_sample: expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'."
        )
    shape, places = tuple(input.shape), tuple(grid.shape)
    if len(shape) not in (4, 5) or len(shape) != len(places):
        raise ShapeError(
            f"grid_sample: expected 4D or 5D input and grid with same number of dimensions, but got input with sizes {shape} "
            f"and grid with sizes {places}."
        )
    if shape[0] != places[0]:
        raise ShapeError(
            f"grid_sample: expected grid and input to have same batch size, but got input with sizes {shape} and grid with "
            f"sizes {places}."
        )
    if places[-1] != len(shape) - 2:
        raise ShapeError(
            f"grid_sample: expected grid to have size {len(shape) - 2} in last dimension, but got grid with sizes {places}."
        )
    if 0 in shape[2:]:
        raise ShapeError(f"grid_sample: expected input to have non-empty spatial dimensions, but got sizes {shape}.")
    if mode == "bicubic" and len(shape) == 5:
        raise ShapeError(f"grid_sample: bicubic interpolation only supports 4D input, got sizes {shape}.")
    if input.dtype is not grid.dtype:
        raise ShapeError(
            f"grid_sample: expected input and grid to have same dtype, but input has {input.dtype} and grid has {grid.dtype}."
        )


@composed(functional=True)
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Array:
    """The grid for `grid_sample` that an affine map makes.

    Args:
        theta (N, 2, 3) or (N, 3, 4): the maps, from places of the result to places of the input.
        size: (N, C, H, W) or (N, C, D, H, W) of the result.
        align_corners: as in `grid_sample`.
    Returns:
        (N, H, W, 2) or (N, D, H, W, 3).

    >>> dynograd.nn.functional.affine_grid(tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    sizes = tuple(size)
    if len(sizes) not in (4, 5) or tuple(theta.shape) != (sizes[0], len(sizes) - 2, len(sizes) - 1):
        raise ShapeError(
            f"affine_grid: expected theta (N, 2, 3) for size (N, C, H, W) or (N, 3, 4) for size (N, C, D, H, W), got theta of "
            f"shape {tuple(theta.shape)} and size {sizes}."
        )
    if min(sizes) <= 0:
        raise ShapeError(f"affine_grid: expected non-zero, positive output size, got {sizes}.")
    if align_corners is None:
        warnings.warn(
            "affine_grid: align_corners is False by default (since 1.3.0); pass it to say which you mean.",
            stacklevel=user_level(),
        )
    spatial = sizes[2:]
    result: Any = theta[:, :, -1].reshape(sizes[0], *[1] * len(spatial), -1)
    for dim, count in enumerate(spatial):
        line = _line(theta, count, bool(align_corners)).reshape(
            1, *[-1 if d == dim else 1 for d in range(len(spatial))], 1
        )
        column = theta[:, :, len(spatial) - 1 - dim].reshape(sizes[0], *[1] * len(spatial), -1)
        result = result + line * column
    return result


def _line(theta: Any, count: int, align: bool) -> Array:
    """`count` places over [-1, 1]."""
    steps = theta.new_ones(count).cumsum(0) - 1
    if count == 1:
        return steps
    return steps * (2 / (count - 1)) - 1 if align else (2 * steps + 1) / count - 1
