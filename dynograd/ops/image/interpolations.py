"""Resizing of the last dims: `interpolate`, one dim after the other. `resample` and `resample_back` are each other's transpose."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.errors import DtypeError, ShapeError, user_level
from dynograd.kernels import kernel
from dynograd.kernels.attention.any_size import is_alike_at_any_size
from dynograd.ops.elementwise.choices import clamp
from dynograd.ops.elementwise.roundings import floor
from dynograd.ops.image.poolings import adaptive_average
from dynograd.ops.layout.broadcasting import convert
from dynograd.ops.op import Gradients, composed, op
from dynograd.ops.row import Row

__all__ = ["interpolate", "upsample"]

FAMILY = Row(out=None, ragged="groups")

_RULES = {
    "nearest": "nearest",
    "nearest-exact": "nearest-exact",
    "linear": "linear",
    "bilinear": "linear",
    "bicubic": "cubic",
    "trilinear": "linear",
    "lanczos": "lanczos",
}
_FILTERS = ("bilinear", "bicubic", "lanczos")
_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}


@op(linear=True, saves="input.shape", inner=True)
def resample(input: Array, dim: int, count: int, rule: str, align_corners: bool, scale: float | None) -> Array:
    """`input` with `count` places along `dim`, each a weighted sum of its neighbours there."""
    return _along(kernel("interpolations", "resample", input), input, dim, count, rule, align_corners, scale)


def _along(run: Callable[..., Array], x: Array, dim: int, *options: Any) -> Array:
    """What a kernel makes; of channels that lie side by side, in that order."""
    order = arrays.image_order(x)
    if order is None:
        return run(x, dim, *options)
    return arrays.turned(run(x.transpose(order), order.index(dim), *options), order)


@resample.backward
def resample_backward(g: Any, saved: Any, dim: Any, count: Any, rule: Any, align_corners: Any, scale: Any) -> Gradients:
    return (resample_back(g, dim, saved.input_shape[dim], rule, align_corners, scale),)


@op(linear=True, saves="g.shape", inner=True)
def resample_back(g: Array, dim: int, size: int, rule: str, align_corners: bool, scale: float | None) -> Array:
    """The transpose of `resample` from `size` places."""
    return _along(kernel("interpolations", "resample_backward", g), g, dim, size, rule, align_corners, scale)


@resample_back.backward
def resample_back_backward(
    g: Any, saved: Any, dim: Any, size: Any, rule: Any, align_corners: Any, scale: Any
) -> Gradients:
    return (resample(g, dim, saved.g_shape[dim], rule, align_corners, scale),)


@composed(functional=True)
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Array:
    """`input` resized in its last dims, to `size` or by `scale_factor`.

    Args:
        input (N, C, *sizes): one to three spatial dims.
        size: the new sizes, or one number for all.
        scale_factor: the factors, or one for all; sizes are rounded down.
        mode: "nearest", "nearest-exact", "area"; "linear" (3-D input), "bilinear", "bicubic" and "lanczos" (4-D), "trilinear" (5-D).
        align_corners: for the linear and cubic modes: the centres of the corner pixels stay where they are, instead of their edges.
        recompute_scale_factor: interpolate by the ratio of the rounded sizes, not by `scale_factor` itself.
        antialias: for "bilinear" and "bicubic", and always with "lanczos": where the image shrinks, each place averages all that it
            stands for.
    Returns:
        (N, C, *size). Images of bytes are resized in whole numbers, as Pillow does.
    Raises:
        ValueError: neither or both of `size` and `scale_factor`, an unknown mode, `align_corners` for a mode without it.
        NotImplementedError: a mode that does not fit the dims of `input`.

    >>> dynograd.nn.functional.interpolate(tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    >>> dynograd.nn.functional.interpolate(tensor([[[1.0, 2.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1.0000, 1.5000, 2.0000]]])
    """
    shape = tuple(input.shape)
    _check(shape, mode, align_corners, antialias)
    own = shape[2:]
    sizes, scales = _sizes_and_scales(own, size, scale_factor, recompute_scale_factor)
    if min(sizes) <= 0 or min(own) <= 0:
        raise ShapeError(
            f"interpolate: Input and output sizes should be greater than 0, but got input {own} and output {sizes} (input of shape {shape})."
        )
    kind = getattr(input, "array", input).dtype
    if kind.kind in "iub" and not (mode.startswith("nearest") or (kind.char == "B" and mode in _FILTERS)):
        raise DtypeError(
            f"interpolate: mode {mode!r} is not implemented for {dtypes.BY_NUM[kind.num]}. Use input.float()."
        )
    if mode == "area":
        return adaptive_average(input, sizes)
    rule = _RULES[mode] + ("-antialias" if antialias else "")
    out = resampled(input, sizes, rule, bool(align_corners), scales)
    return out * 1 if out is input else out


def resampled(input: Any, sizes: Any, rule: str, align_corners: bool, scales: Any) -> Array:
    """`input` with its last dims resampled one after the other. Bytes begin with the last dim, and are rounded after each.

    The weights of bytes are whole multiples of a power of two, so that their sums are exact in float64.
    """
    own, bytewise = input.shape[2:], "nearest" not in rule and getattr(input, "array", input).dtype.char == "B"
    order = range(len(sizes))
    for place in reversed(order) if bytewise else order:
        if sizes[place] != own[place] or scales[place] is not None or is_alike_at_any_size():
            options = sizes[place], rule + "-bytes" * bytewise, align_corners, scales[place]
            wide = resample(convert(input, dtypes.float64) if bytewise else input, place + 2, *options)
            input = convert(clamp(floor(wide + 0.5), 0, 255), dtypes.uint8) if bytewise else wide
    return input


@composed(functional=True)
def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Array:
    """The old name of `interpolate`.

    Args:
        input (N, C, *sizes): one to three spatial dims.
        size: the new sizes, or one number for all.
        scale_factor: the factors, or one for all.
        mode, align_corners: as in `interpolate`.
    Returns:
        (N, C, *size).

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     dynograd.nn.functional.upsample(tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=user_level(),
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


@composed(functional=True)
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Array:
    """The old name of `interpolate` with mode "nearest".

    Args:
        input (N, C, *sizes): one to three spatial dims.
        size: the new sizes, or one number for all.
        scale_factor: the factors, or one for all.
    Returns:
        (N, C, *size).

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     dynograd.nn.functional.upsample_nearest(tensor([[[1.0, 2.0]]]), size=4)
    tensor([[[1., 1., 2., 2.]]])
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=user_level(),
    )
    return interpolate(input, size, scale_factor)


@composed(functional=True)
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Array:
    """The old name of `interpolate` with mode "bilinear" and corners aligned.

    Args:
        input (N, C, H, W): images.
        size: (H', W'), or one number for both.
        scale_factor: the factors, or one for both.
    Returns:
        (N, C, H', W').

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     dynograd.nn.functional.upsample_bilinear(tensor([[[[1.0, 2.0]]]]), size=(1, 3))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        UserWarning,
        stacklevel=user_level(),
    )
    return interpolate(input, size, scale_factor, "bilinear", True)


def _check(shape: tuple[int, ...], mode: str, align_corners: Any, antialias: bool) -> None:
    if mode not in (*_RULES, "area"):
        raise ValueError(f"interpolate: unknown mode {mode!r}: expected one of {', '.join([*_RULES, 'area'])}.")
    if mode not in _RANKS:
        if align_corners is not None:
            raise ValueError(
                f"interpolate: align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear, "
                f"got mode={mode!r}. Leave it out."
            )
        if len(shape) not in (3, 4, 5):
            raise NotImplementedError(
                f"interpolate: Got {len(shape)}D input of shape {shape}, but {mode} mode needs 3D, 4D or 5D input (N, C, *sizes). Use "
                f"unsqueeze."
            )
    elif len(shape) != _RANKS[mode]:
        raise NotImplementedError(
            f"interpolate: Got {len(shape)}D input of shape {shape}, but {mode} mode needs {_RANKS[mode]}D input (N, C, *sizes). For 3D, 4D "
            f"and 5D input there are linear, bilinear (or bicubic) and trilinear."
        )
    if antialias and (mode not in _FILTERS or len(shape) != 4):
        raise ValueError(
            f"interpolate: Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input, got "
            f"mode={mode!r} and shape {shape}. Leave it out, or use mode='area'."
        )
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError(
            f"interpolate: Lanczos mode requires antialias=True and does not support align_corners=True, got antialias={antialias} and "
            f"align_corners={align_corners}. Use antialias=True, or mode='bicubic'."
        )


def _sizes_and_scales(own: tuple[int, ...], size: Any, scale_factor: Any, recompute: Any) -> tuple[tuple, tuple]:
    """New sizes, and input places per output place (None: the ratio of the sizes)."""
    rank = len(own)
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: only one of size or scale_factor should be defined, got both.")
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor is not meaningful with an explicit size.")
        sizes = (
            tuple([size.__index__() for size in size])
            if isinstance(size, (tuple, list))
            else (size.__index__(),) * rank
        )
        if len(sizes) != rank:
            raise ShapeError(
                f"interpolate: Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of "
                f"{list(own)} and output size of {list(sizes)}. Give output size in (o1, o2, ..., oK) format."
            )
        return sizes, (None,) * rank
    if scale_factor is None:
        raise ValueError("interpolate: either size or scale_factor should be defined, got neither.")
    scales = (
        tuple(map(float, scale_factor)) if isinstance(scale_factor, (tuple, list)) else (float(scale_factor),) * rank
    )
    if len(scales) != rank:
        raise ShapeError(
            f"interpolate: Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of "
            f"{list(own)} and scale_factor of shape {list(scales)}. Give scale_factor in (s1, s2, ..., sK) format."
        )
    sizes = tuple([math.floor(size * scale) for size, scale in zip(own, scales, strict=True)])
    return sizes, (None,) * rank if recompute else tuple([1 / scale for scale in scales])
