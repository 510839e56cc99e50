"""Normalisations, and samples of grids."""

from __future__ import annotations

from typing import Any

from dynograd.nn import functional
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import Numbers, Results, dynograd, ints
from dynograd.tensor.tensor import Tensor


@operator("BatchNormalization", outputs=0)
def batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0, spatial: int = 1, n_outputs: int = 1,
) -> Results:  # fmt: skip
    if not training_mode:
        return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
    dims = [0, *range(2, x.ndim)]
    now, spread = x.mean(dims), x.var(dims, correction=0)
    y = functional.batch_norm(x, now, spread, scale, bias, False, 0.0, epsilon)
    running = mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum)
    return y if n_outputs == 1 else (y, *running)


@operator("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    return functional.group_norm(x, x.shape[1], scale, bias, epsilon)


@operator("GroupNormalization", since=21)
def group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    return functional.group_norm(x, num_groups, scale, bias, epsilon)


@operator("LayerNormalization", outputs=0)
def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5,
    stash_type: int = 1, n_outputs: int = 1,
) -> Results:  # fmt: skip
    dims = list(range(axis % x.ndim, x.ndim))
    if n_outputs == 1:
        shape = [x.shape[dim] for dim in dims]
        bias = None if bias is None else bias.expand(shape)
        return functional.layer_norm(x, shape, scale.expand(shape), bias, epsilon)
    mean = x.mean(dims, keepdim=True)
    inverse = dynograd.rsqrt(((x - mean) ** 2).mean(dims, keepdim=True) + epsilon)
    y = (x - mean) * inverse * scale
    return ((y if bias is None else y + bias), mean, inverse)[:n_outputs]


@operator("RMSNormalization")
def rms_norm(x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    dims = list(range(axis % x.ndim, x.ndim))
    return x * dynograd.rsqrt((x * x).mean(dims, keepdim=True) + epsilon) * scale


@operator("LRN")
def local_response_norm(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    before = (size - 1) // 2
    squares = functional.pad(x * x, [0, 0] * (x.ndim - 2) + [before, size - 1 - before])
    total = sum(squares.narrow(1, place, x.shape[1]) for place in range(size))
    return x / (bias + alpha / size * total) ** beta


@operator("LpNormalization")
def lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    length = dynograd.linalg.vector_norm(x, p, axis, keepdim=True)
    return dynograd.where(length == 0, dynograd.zeros_like(x), x / dynograd.where(length == 0, 1, length))


@operator("MeanVarianceNormalization")
def mean_variance_norm(x: Tensor, *, axes: Any = (0, 2, 3)) -> Tensor:
    centred = x - x.mean(list(axes), keepdim=True)
    return centred / (dynograd.sqrt((centred * centred).mean(list(axes), keepdim=True)) + 1e-9)


@operator("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return functional.grid_sample(x, grid, mode, padding_mode, bool(align_corners))


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Numbers, *, align_corners: int = 0) -> Tensor:
    return functional.affine_grid(theta, ints(size), bool(align_corners))
