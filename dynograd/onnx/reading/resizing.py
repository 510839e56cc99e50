"""Images of another size: each output is a weighted sum of inputs, axis by axis."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, dynograd, ints, numbers, tensor_of
from dynograd.tensor.tensor import Tensor


def _position(out: int, size: int, new: int, scale: float, mode: str, roi: tuple[float, float]) -> float:
    """Where in the input an output's middle lies."""
    length = scale * size  # of the output, before it is cut to a whole number
    if mode == "half_pixel":
        return (out + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - new / length) + (out + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return (out + 0.5) / scale - 0.5 if length != 1 else 0.0
    if mode == "asymmetric":
        return out / scale
    if mode == "align_corners":
        return out * (size - 1) / (length - 1) if length != 1 else 0.0
    start, end = roi  # tf_crop_and_resize
    if length != 1:
        return start * (size - 1) + out * (end - start) * (size - 1) / (length - 1)
    return 0.5 * (start + end) * (size - 1)


def _kernel(distance: float, mode: str, a: float) -> float:
    x = abs(distance)
    if mode == "linear":
        return max(1 - x, 0.0)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _nearest(x: float, mode: str) -> int:
    if mode == "round_prefer_floor":
        return math.ceil(x - 0.5)
    if mode == "round_prefer_ceil":
        return math.floor(x + 0.5)
    return math.floor(x) if mode == "floor" else math.ceil(x)


def _weights(
    size: int, new: int, scale: float, mode: str, places: str, roi: tuple[float, float], nearest: str, a: float,
    exclude: bool, antialias: bool,
) -> tuple[numpy.ndarray, numpy.ndarray]:  # fmt: skip
    """(new, size) weights, and which outputs lie outside the input."""
    weights, outside = numpy.zeros((new, size)), numpy.zeros(new, bool)
    stretch = min(scale, 1.0) if antialias else 1.0
    for out in range(new):
        x = _position(out, size, new, scale, places, roi)
        outside[out] = x < 0 or x > size - 1
        if mode == "nearest":
            weights[out, min(max(_nearest(x, nearest), 0), size - 1)] = 1
            continue
        reach = (1 if mode == "linear" else 2) / stretch
        taps = range(math.floor(x - reach) + 1, math.ceil(x + reach) + 1)
        shares = numpy.array([_kernel((tap - x) * stretch, mode, a) for tap in taps])
        if exclude:
            shares *= [0 <= tap < size for tap in taps]
        if exclude or antialias:
            shares = shares / shares.sum()
        for tap, share in zip(taps, shares):
            weights[out, min(max(tap, 0), size - 1)] += share
    return weights, outside


# What `interpolate` does as Resize does: (mode, how places are found, detail of the mode) -> `align_corners`.
_INTERPOLATIONS = {
    ("nearest", "asymmetric", "floor"): None,
    ("linear", "half_pixel", None): False,
    ("linear", "align_corners", None): True,
    ("cubic", "half_pixel", -0.75): False,
    ("cubic", "align_corners", -0.75): True,
}
_MODES = {"nearest": ("nearest",) * 3, "linear": ("linear", "bilinear", "trilinear"), "cubic": ("", "bicubic", "")}


def _interpolated(
    x: Tensor, mode: str, new_sizes: dict[int, Any], align_corners: bool | None, by_scales: bool
) -> Tensor | None:
    """The picture by `interpolate`, which says its size as a number of the input's; None: it does something else there.

    Args:
        new_sizes: factors or sizes, by axis.
    """
    name = _MODES[mode][x.ndim - 3]
    usual = {axis: 1.0 if by_scales else x.shape[axis] for axis in range(x.ndim)}
    sizes = list({**usual, **new_sizes}.values())
    if not name or not x.dtype.is_floating_point or sizes[:2] != list(usual.values())[:2]:
        return None
    if not by_scales:
        return dynograd.nn.functional.interpolate(x, size=sizes[2:], mode=name, align_corners=align_corners)
    if align_corners and any([factor != int(factor) for factor in sizes]):
        return None
    return dynograd.nn.functional.interpolate(x, scale_factor=sizes[2:], mode=name, align_corners=align_corners)


@operator("Resize", since=11)
def resize(
    x: Tensor, roi: Numbers | None = None, scales: Numbers | None = None, sizes: Numbers | None = None, *,
    antialias: int = 0, axes: Any = None, coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest", nearest_mode: str = "round_prefer_floor",
) -> Tensor:  # fmt: skip
    axes = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in axes]
    if scales is not None and numbers(scales):
        factors = [float(scale) for scale in numbers(scales)]
        news = [math.floor(x.shape[axis] * factor) for axis, factor in zip(axes, factors)]
    else:
        news = ints(sizes)
        factors = [new / x.shape[axis] for axis, new in zip(axes, news)]
        if keep_aspect_ratio_policy != "stretch":
            factor = min(factors) if keep_aspect_ratio_policy == "not_larger" else max(factors)
            factors = [factor] * len(axes)
            news = [math.floor(x.shape[axis] * factor + 0.5) for axis in axes]
    by_scales = scales is not None and bool(numbers(scales))
    details = nearest_mode if mode == "nearest" else cubic_coeff_a if mode == "cubic" else None
    how = (mode, coordinate_transformation_mode, details)
    if how in _INTERPOLATIONS and not (antialias or exclude_outside) and x.ndim in (3, 4, 5):
        new_sizes = dict(zip(axes, factors)) if by_scales else dict(zip(axes, news))
        picture = _interpolated(x, mode, new_sizes, _INTERPOLATIONS[how], by_scales)
        if picture is not None and keep_aspect_ratio_policy == "stretch":
            return picture
    corners = [] if roi is None else [float(corner) for corner in numbers(roi)]
    y, dtype = x if x.dtype.is_floating_point else x.double(), x.dtype
    cropped = coordinate_transformation_mode == "tf_crop_and_resize"
    outsides = []
    for place, (axis, new, factor) in enumerate(zip(axes, news, factors)):
        part = (corners[place], corners[place + len(axes)]) if corners else (0.0, 1.0)
        if x.shape[axis] == new and factor == 1 and not cropped:
            continue
        weights, outside = _weights(
            x.shape[axis], new, factor, mode, coordinate_transformation_mode, part, nearest_mode, cubic_coeff_a,
            bool(exclude_outside), bool(antialias),
        )  # fmt: skip
        y = (y.movedim(axis, -1) @ tensor_of(weights.T).to(y.dtype)).movedim(-1, axis)
        outsides.append((axis, outside))
    for axis, outside in outsides if cropped else ():
        mask = tensor_of(outside).reshape([-1 if dim == axis else 1 for dim in range(x.ndim)])
        y = dynograd.where(mask, dynograd.full_like(y, extrapolation_value), y)
    return y if dtype.is_floating_point else dynograd.round(y).to(dtype)


@operator("Resize", since=10)
def resize_by_scales(x: Tensor, scales: Numbers, *, mode: str = "nearest") -> Tensor:
    return resize(x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@operator("Upsample", since=9)
def upsample(x: Tensor, scales: Numbers, *, mode: str = "nearest") -> Tensor:
    return resize_by_scales(x, scales, mode=mode)


@operator("Upsample", since=7)
def upsample_by_numbers(x: Tensor, *, scales: Numbers, mode: str = "nearest") -> Tensor:
    return resize_by_scales(x, scales, mode=mode)
