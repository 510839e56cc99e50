"""Channels and pixels moved into each other: `pixel_shuffle`, its inverse, and `channel_shuffle`."""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.errors import ShapeError
from dynograd.ops.layout.conversions import image_copy
from dynograd.ops.layout.views import permuted, reshaped
from dynograd.ops.op import composed
from dynograd.ops.row import Row

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]

FAMILY = Row(out=None, ragged="groups", functional=True)


@composed()
def pixel_shuffle(input: Any, upscale_factor: int) -> Array:
    """Moves channels into space: (*, C r^2, H, W) to (*, C, H r, W r).

    Args:
        input (*, C r^2, H, W): images.
        upscale_factor: r.
    Returns:
        (*, C, H r, W r).
    Raises:
        ShapeError: the channels are not divisible by r^2.
    Source: Shi et al., Real-time single image and video super-resolution, 2016 (arXiv:1609.05158), equation 4.

    >>> dynograd.nn.functional.pixel_shuffle(dynograd.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    who, factor = "pixel_shuffle", upscale_factor
    _check(who, input, "upscale_factor", factor)
    *lead, channels, height, width = input.shape
    if channels % factor**2:
        raise ShapeError(
            f"{who}: pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
            f"input.size(-3)={channels} is not divisible by {factor**2}."
        )
    n = len(lead)
    split = reshaped(input, (*lead, channels // factor**2, factor, factor, height, width))
    moved = permuted(split, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    result = reshaped(moved, (*lead, channels // factor**2, height * factor, width * factor))
    return image_copy(result) if factor == 1 else result  # a view of the input, which PyTorch's is not


@composed()
def pixel_unshuffle(input: Any, downscale_factor: int) -> Array:
    """Moves space into channels: (*, C, H r, W r) to (*, C r^2, H, W); the inverse of `pixel_shuffle`.

    Args:
        input (*, C, H r, W r): images.
        downscale_factor: r.
    Returns:
        (*, C r^2, H, W).
    Raises:
        ShapeError: height or width is not divisible by r.

    >>> dynograd.nn.functional.pixel_unshuffle(tensor([[[0.0, 1.0], [2.0, 3.0]]]), 2).flatten()
    tensor([0., 1., 2., 3.])
    """
    who, factor = "pixel_unshuffle", downscale_factor
    _check(who, input, "downscale_factor", factor)
    *lead, channels, height, width = input.shape
    for name, size in (("height", height), ("width", width)):
        if size % factor:
            raise ShapeError(
                f"{who}: pixel_unshuffle expects {name} to be divisible by downscale_factor, but {name} {size} is not divisible by {factor} "
                f"(shape {tuple(input.shape)})."
            )
    n = len(lead)
    split = reshaped(input, (*lead, channels, height // factor, factor, width // factor, factor))
    moved = permuted(split, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    result = reshaped(moved, (*lead, channels * factor**2, height // factor, width // factor))
    return image_copy(result) if factor == 1 else result


@composed()
def channel_shuffle(input: Any, groups: int) -> Array:
    """Mixes groups of channels of (N, C, *): channel j of group i becomes channel i of group j.

    Args:
        input (N, C, *): tensor with channels.
        groups: a divisor of C.
    Returns:
        A tensor of the shape and dtype of `input`.
    Raises:
        ShapeError: the channels are not divisible by `groups`.
    Source: Zhang et al., ShuffleNet, 2018 (arXiv:1707.01083).

    >>> dynograd.nn.functional.channel_shuffle(tensor([[[0.0], [1.0], [2.0], [3.0]]]), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    who, shape = "channel_shuffle", tuple(input.shape)
    if len(shape) < 3:
        raise ShapeError(f"{who}: channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}.")
    if groups <= 0 or shape[1] % groups:
        raise ShapeError(
            f"{who}: Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} groups."
        )
    split = reshaped(input, (shape[0], groups, shape[1] // groups, *shape[2:]))
    return reshaped(permuted(split, (0, 2, 1, *range(3, len(shape) + 1))), shape)


def _check(who: str, input: Any, name: str, factor: int) -> None:
    if len(input.shape) < 3:
        raise ShapeError(
            f"{who}: {who} expects input to have at least 3 dimensions, but got shape {tuple(input.shape)}."
        )
    if factor <= 0:
        raise ShapeError(f"{who}: {who} expects a positive {name}, but got {factor}.")
