"""The three mutually adjoint ops behind convolution.

`correlate(x, w)`, `correlate_back(g, w)` and `correlate_weight(x, g)` are the convolution, its gradient for x and its gradient for
w. Each is bilinear, and the backward of each is written with the other two, so that gradients of every order exist. Transposed
convolution is `correlate_back`. The public functions are in `convolutions.py`.
"""

from __future__ import annotations

from typing import Any

from dynograd.arrays import Array
from dynograd.kernels import kernel
from dynograd.ops.elementwise.arithmetic import conjugated
from dynograd.ops.index.indexing import get_basic
from dynograd.ops.layout.views import reshaped
from dynograd.ops.op import Gradients, op
from dynograd.ops.reduce.reductions import sum as sum_dims
from dynograd.ops.row import Row

FAMILY = Row(out=None, ragged="groups")


@op(name="convolution", saves="input weight", cast="lower", work="convolution")
def correlate(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    """The convolution of (N, C, *sizes) with (CO, C / groups, *kernel), plus a bias per output channel."""
    return kernel("convolutions", "conv_forward", input)(input, weight, bias, stride, padding, dilation, groups)


@correlate.backward
def correlate_backward(g: Any, saved: Any, *window: Any) -> Gradients:
    x, w = conjugated(saved.input), conjugated(saved.weight)
    return (
        correlate_back(g, w, None, tuple(x.shape), *window) if saved.needs(0) else None,
        correlate_weight(x, g, tuple(w.shape), *window) if saved.needs(1) else None,
        _bias_gradient(g) if saved.needs(2) else None,
    )


@correlate.jvp
def correlate_jvp(tangents: Any, saved: Any, *window: Any) -> Array:
    x_way, w_way, b_way = tangents
    return _total(
        None if x_way is None else correlate(x_way, saved.weight, None, *window),
        None if w_way is None else correlate(saved.input, w_way, None, *window),
        None if b_way is None else _per_channel(b_way, len(saved.weight.shape)),
    )


@op(name="convolution_input_gradient", saves="g weight", inner=True, work="input gradient")
def correlate_back(
    g: Array,
    weight: Array,
    bias: Array | None,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    """What `g` (N, CO, *) sends back to an input of `shape`: the gradient of `correlate` for its input, plus a bias."""
    return kernel("convolutions", "conv_input_gradient", g)(g, weight, bias, shape, stride, padding, dilation, groups)


@correlate_back.backward
def correlate_back_backward(outer: Any, saved: Any, shape: Any, *window: Any) -> Gradients:
    g, w = conjugated(saved.g), conjugated(saved.weight)
    return (
        _cut(correlate(outer, w, None, *window), tuple(g.shape)) if saved.needs(0) else None,
        correlate_weight(outer, g, tuple(w.shape), *window) if saved.needs(1) else None,
        _bias_gradient(outer) if saved.needs(2) else None,
    )


@correlate_back.jvp
def correlate_back_jvp(tangents: Any, saved: Any, shape: Any, *window: Any) -> Array:
    g_way, w_way, b_way = tangents
    return _total(
        None if g_way is None else correlate_back(g_way, saved.weight, None, shape, *window),
        None if w_way is None else correlate_back(saved.g, w_way, None, shape, *window),
        None if b_way is None else _per_channel(b_way, len(saved.weight.shape)),
    )


@op(name="convolution_weight_gradient", saves="input g", inner=True, work="weight gradient")
def correlate_weight(
    input: Array,
    g: Array,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Array:
    """What `g` sends back to a weight of `shape`: the gradient of `correlate` for its weight."""
    return kernel("convolutions", "conv_weight_gradient", input)(input, g, shape, stride, padding, dilation, groups)


@correlate_weight.backward
def correlate_weight_backward(outer: Any, saved: Any, shape: Any, *window: Any) -> Gradients:
    x, g = conjugated(saved.input), conjugated(saved.g)
    return (
        correlate_back(g, outer, None, tuple(x.shape), *window) if saved.needs(0) else None,
        _cut(correlate(x, outer, None, *window), tuple(g.shape)) if saved.needs(1) else None,
    )


@correlate_weight.jvp
def correlate_weight_jvp(tangents: Any, saved: Any, *window: Any) -> Array:
    x_way, g_way = tangents
    return _total(
        None if x_way is None else correlate_weight(x_way, saved.g, *window),
        None if g_way is None else correlate_weight(saved.input, g_way, *window),
    )


def _per_channel(bias: Any, rank: int) -> Array:
    return reshaped(bias, (-1, *(1,) * (rank - 2)))


def _bias_gradient(g: Any) -> Array:
    return sum_dims(g, (0, *range(2, len(g.shape))), False)


def _total(*parts: Any) -> Array:
    total = None
    for part in parts:
        if part is not None:
            total = part if total is None else total + part
    return total


def _cut(array: Any, shape: tuple[int, ...]) -> Array:
    """Without the last windows, which start in what output_padding added."""
    if tuple(array.shape) == shape:
        return array
    return get_basic(array, tuple([slice(0, size) for size in shape]))
