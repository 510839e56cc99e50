"""Convolutions that are products: kernels of one place, and as large as the images. Of others what NumPy computes beside their kernels: sums that
begin from zero, and the gradient of a bias.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.kernels.build.launches import Launch
from dynograd.kernels.conv import convolutions_cpu as by_kernels
from dynograd.kernels.conv.convolutions_columns import places_read
from dynograd.plans.calls import Call
from dynograd.plans.lowering import layouts
from dynograd.plans.lowering.bound import assistance
from dynograd.plans.lowering.families import products, reductions
from dynograd.plans.lowering.families.rearrangements import added
from dynograd.plans.lowering.forms import Lowered, arguments_of, form

__all__: list[str] = []

# They add to their first argument.
_ADDING = ("correlate_weights", "correlate_weight_points")


@assistance("op", "convolution_weight_gradient")
def _from_zero(call: Call) -> list[Launch] | None:
    launches: list[Launch] = []
    for launch in call.launches:
        if launch.name.rpartition(".")[2] in _ADDING:
            zeros = layouts.fill(launch.arguments[0], 0)
            if zeros is None:
                return None
            launches += zeros
        launches.append(launch)
    return launches


@assistance("rule", "convolution", "convolution_input_gradient")
def _convolution_rule(call: Call) -> list[Launch] | None:
    """The gradient of a bias is summed anew: NumPy adds up the blocks of its kernel."""
    launches, bias = _from_zero(call), call.outputs[2] if len(call.outputs) > 2 else None
    if bias is None or launches is None:
        return launches
    summed = _bias_gradient(call.inputs[0], bias)
    kept = [launch for launch in launches if not launch.name.startswith("sum_")]
    return None if summed is None else [*kept, *summed]


# --- products -------------------------------------------------------------------------------------------------------------------


class _Products:
    """A convolution of images of one shape as products, all in row-major memory; `fits` says whether it is one."""

    def __init__(self, shape: Any, weight_shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> None:
        self.stride, self.whole = tuple(stride), by_kernels.is_whole(shape, weight_shape, padding, groups)
        self.fits = self.whole or by_kernels.is_pointwise(weight_shape, padding, groups)

    def matrices(self, images: Any) -> numpy.ndarray:
        """(N, C K) or (N, C, places), a view."""
        rank = 1 if self.whole else 2
        matrices: numpy.ndarray = images.reshape(*images.shape[:rank], prod(images.shape[rank:]))
        return matrices

    def reads(self, *images: Any) -> bool:
        return all([array is None or array.flags.c_contiguous for array in images])

    def input_of(self, x: Any, shape: Any) -> numpy.ndarray:
        """The places of x that count for results of a shape."""
        read: numpy.ndarray = x if self.whole or max(self.stride) == 1 else x[places_read(shape[2:], self.stride)]
        return read

    def forward(self, x: Any, weight: Any, bias: Any, out: Any) -> list[Launch] | None:
        before: list[Launch] = []
        x = layouts.row_major(self.input_of(x, out.shape), before)
        if x is None or not self.reads(weight, out) or (bias is not None and bias.dtype != x.dtype):
            return None
        w = weight.reshape(len(weight), -1)
        if self.whole:
            put = products.product(self.matrices(x), w.T, self.matrices(out), bias)
        else:
            begin = None if bias is None else bias[:, None]
            put = products.product(w, self.matrices(x), self.matrices(out), begin)
        return None if put is None else [*before, *put]

    def back(self, g: Any, weight: Any, bias: Any, out: Any) -> list[Launch] | None:
        """The gradient of the input, plus a bias of its channels."""
        if not self.reads(g, weight, out) or (bias is not None and bias.dtype != g.dtype):
            return None
        w = weight.reshape(len(weight), -1)
        if self.whole:
            put = products.product(self.matrices(g), w, self.matrices(out))
            biased = [] if bias is None else added(out, bias.reshape(-1, *[1] * (out.ndim - 2)))
            return None if put is None or biased is None else [*put, *biased]
        if g.shape[2:] == out.shape[2:]:
            begin = None if bias is None else bias[:, None]
            return products.product(w.T, self.matrices(g), self.matrices(out), begin)
        read = layouts.scratch((*out.shape[:2], *g.shape[2:]), g.dtype)
        put, zeros = products.product(w.T, self.matrices(g), self.matrices(read)), layouts.fill(out, 0)
        placed = layouts.copy(out[places_read(g.shape[2:], self.stride)], read)
        if put is None or zeros is None or placed is None or bias is not None:
            return None
        return [*zeros, *put, *placed]

    def weights(self, x: Any, g: Any, out: Any) -> list[Launch] | None:
        before: list[Launch] = []
        x = layouts.row_major(self.input_of(x, g.shape), before)
        if x is None or not self.reads(g, out):
            return None
        g, target = self.matrices(g), out.reshape(len(out), -1)
        if self.whole:
            put = products.product(g.T, self.matrices(x), target)
            return None if put is None else [*before, *put]
        summed = products.summed(before, g, self.matrices(x).swapaxes(1, 2), target)
        return before if summed else None


def _bias_gradient(g: Any, bias: Any) -> list[Launch] | None:
    return reductions.reduced("sum", "same", g, (0, *range(2, g.ndim)), bias)


def _joined(*parts: list[Launch] | None) -> Lowered | None:
    launches: list[Launch] = []
    for part in parts:
        if part is None:
            return None
        launches += part
    return Lowered(launches, exact=False)


def _window(arguments: dict[str, Any]) -> tuple[Any, ...]:
    return tuple([arguments[name] for name in ("stride", "padding", "dilation", "groups")])


@form("op", "convolution")
def _convolution(call: Call) -> Lowered | None:
    arguments, out = arguments_of(call), call.outputs[0]
    x, weight = arguments["input"], arguments["weight"]
    of = _Products(x.shape, weight.shape, *_window(arguments))
    return _joined(of.forward(x, weight, arguments["bias"], out)) if of.fits and out.size else None


@form("op", "convolution_input_gradient")
def _transposed(call: Call) -> Lowered | None:
    arguments, out = arguments_of(call), call.outputs[0]
    g, weight = arguments["g"], arguments["weight"]
    of = _Products(out.shape, weight.shape, *_window(arguments))
    return _joined(of.back(g, weight, arguments["bias"], out)) if of.fits and out.size else None


@form("op", "convolution_weight_gradient")
def _weight_gradient(call: Call) -> Lowered | None:
    arguments, out = arguments_of(call), call.outputs[0]
    x, g = arguments["input"], arguments["g"]
    of = _Products(x.shape, out.shape, *_window(arguments))
    return _joined(of.weights(x, g, out)) if of.fits and g.size else None


@form("rule", "convolution", "convolution_input_gradient")
def _product_rule(call: Call) -> Lowered | None:
    """Of a transposed convolution the gradient that comes is an image, and what was convolved its result's gradient."""
    node, (g, *_), (first, g_weight, *rest) = call.node, call.inputs, call.outputs
    transposed = call.name == "convolution_input_gradient"
    images, results = (g, node.g) if transposed else (node.input, g)
    weight, window = node.weight, node.attrs[1:] if transposed else node.attrs
    if images is None or weight is None or results is None or not g.size:
        return None
    of = _Products(images.shape, weight.shape, *window)
    if not of.fits:
        return None
    parts: list[list[Launch] | None] = []
    if first is not None:
        parts.append(of.forward(images, weight, None, first) if transposed else of.back(g, weight, None, first))
    if g_weight is not None:
        parts.append(of.weights(images, results, g_weight))
    if rest and rest[0] is not None:
        parts.append(_bias_gradient(g, rest[0]))
    return _joined(*parts)
