"""Convolution over 1, 2 or 3 spatial dims and its two gradients on the GPU, twin of `convolutions_cpu`.

Products of matrices with gathered rows; kernels of one place are plain matrix products, and a group for each channel has kernels of its
own. Inside, arrays are channels-last (others are turned once): a place's channels are what is read in one piece. float32 is multiplied
in TF32 where `backends.cudnn.allow_tf32` says so (PyTorch's default). Weight gradients are sums over parts of the places, in order.
"""

from __future__ import annotations

import math
from itertools import product as combinations
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy

from dynograd.arrays.cuda_arrays import CudaArray, of_layout
from dynograd.kernels.build import precision
from dynograd.kernels.build.batch_invariance import batch_invariant
from dynograd.kernels.conv import convolutions_triton as device
from dynograd.kernels.conv.convolution_layouts_cuda import (
    Window,
    channels_last,
    five_dims,
    has_channels_last,
    is_channels_last,
    layout_like,
    moved,
    numbers_of,
    of_other_kinds,
    place_steps,
    power,
    processors,
    three,
    unit_of,
)
from dynograd.kernels.conv.convolution_weights_cuda import conv_weight_gradient
from dynograd.kernels.matmul import matmuls_cuda

__all__ = ["conv_forward", "conv_input_gradient", "conv_weight_gradient"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FEW_CHANNELS = 16  # below, taps and channels make one run: a tensor core takes 16 numbers at a time
_plans: dict[Any, Any] = {}
_MOST_PLANS = 20000  # kept at a time: shapes that never come again would fill the memory
_float32, _float64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)


def conv_forward(x, weight, bias, stride, padding, dilation, groups):
    """Sum over channels and kernel of weight * x, plus a bias (CO,) or None: (N, CO, *sizes')."""
    if x.dtype.name not in _FLOATS:
        return of_other_kinds(lambda x, w: conv_forward(x, w, None, stride, padding, dilation, groups), x, weight, bias)
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    shape = (
        x.shape[0], weight.shape[0], *[(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in sizes],
    )  # fmt: skip
    if _is_pointwise(weight, stride, padding, groups):
        last = is_channels_last(x) or is_channels_last(weight)
        return _pointwise(x, weight.reshape(weight.shape[:2]), bias, shape, last)
    return _run(_forward_plan, x, weight, bias, shape, stride, padding, dilation, groups)


def conv_input_gradient(g, weight, bias, input_shape, stride, padding, dilation, groups):
    """Gradient of x of shape `input_shape`, plus a bias (C,) or None; input places that no kernel position touches get 0."""
    if g.dtype.name not in _FLOATS:
        return of_other_kinds(
            lambda g, w: conv_input_gradient(g, w, None, input_shape, stride, padding, dilation, groups),
            g,
            weight,
            bias,
        )
    shape = tuple(input_shape)
    if _is_pointwise(weight, stride, padding, groups):
        last = is_channels_last(g) or is_channels_last(weight)
        return _pointwise(g, weight.reshape(weight.shape[:2]).T, bias, shape, last)
    return _run(_backward_plan, g, weight, bias, shape, stride, padding, dilation, groups)


# --- kernels of one place ------------------------------------------------------------------------------------------------------


def _is_pointwise(weight, stride, padding, groups):
    return math.prod(weight.shape[2:]) == 1 and set(stride) == {1} and not any(padding) and groups == 1


def _pointwise(x, weight, bias, shape, last):
    """A product of the places' channels with `weight` (CO, C)."""
    if not last and bias is None and not is_channels_last(x):
        places = math.prod(x.shape[2:])
        return matmuls_cuda.multiply(weight, x.reshape(x.shape[0], x.shape[1], places), tf32="cudnn").reshape(shape)
    rows = moved(channels_last(x)).reshape(
        x.size // max(x.shape[1], 1) if x.shape[1] else shape[0] * math.prod(shape[2:]), x.shape[1]
    )
    out = matmuls_cuda.multiply(rows, weight.T, bias, tf32="cudnn").reshape(shape[0], *shape[2:], shape[1])
    out = out.transpose(0, out.ndim - 1, *range(1, out.ndim - 1))
    return out if last else out.copy()


# --- plans: what is decided once for all arrays of the same layouts -------------------------------------------------------------


class Launch(NamedTuple):
    """One launch; the parts of weight and result that it works on begin so many bytes into these."""

    kernel: Any
    grid: tuple[int, ...]
    weight: int
    out: int
    numbers: tuple[int, ...]
    constants: dict[str, Any]


class Plan(NamedTuple):
    """Whether the operands are made channels-last first, the result's layout, its launches, and whether it is turned at the end."""

    turns_x: bool
    turns_weight: bool
    out: Any
    launches: list[Launch]
    turned: bool


def _run(planned, x, weight, bias, shape, stride, padding, dilation, groups):
    key = (
        planned, x.layout, weight.layout, x.pointer % 16 == 0, weight.pointer % 16 == 0, bias is None, shape, tuple(stride),
        tuple(padding), tuple(dilation), groups, precision.allows_tf32("cudnn"), batch_invariant(),
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) > _MOST_PLANS:
            _plans.clear()
        options = three(stride, 1), three(padding, 0), three(dilation, 1), groups
        plan = _plans[key] = planned(_Ghosts(x, weight), bias is not None, shape, *options)
    bias = bias if bias is None or bias.is_contiguous else bias.copy()
    x = channels_last(x) if plan.turns_x else x
    weight = channels_last(weight) if plan.turns_weight else weight
    out = of_layout(plan.out)
    for launch in plan.launches:
        taps = weight.as_strided((1,), (weight.itemsize,), launch.weight) if launch.weight else weight
        part = out.as_strided((1,), (out.itemsize,), launch.out) if launch.out else out
        launch.kernel(launch.grid, x, taps, part, x if bias is None else bias, *launch.numbers, **launch.constants)
    return out.copy() if plan.turned else out


class _Ghosts:
    """Arrays without memory, with which a plan is made: the operands, as they are or channels-last, and the result."""

    def __init__(self, x, weight):
        self.last = is_channels_last(x) or is_channels_last(weight)
        self.turns_x = self.turns_weight = False
        self.x, self.weight = _ghost(x.layout, x.pointer % 16), _ghost(weight.layout, weight.pointer % 16)

    def turn(self):
        """Operands channels-last."""
        self.turns_x, self.turns_weight = not has_channels_last(self.x), not has_channels_last(self.weight)
        self.x, self.weight = self.turn_one(self.x), self.turn_one(self.weight)

    def turn_one(self, array):
        return array if has_channels_last(array) else _ghost(layout_like(array.shape, array, True), 0)

    def plan(self, out, launches, turned):
        return Plan(self.turns_x, self.turns_weight, out, launches if out.size else [], turned)


def _ghost(layout, pointer):
    ghost = object.__new__(CudaArray)
    ghost.storage, ghost.pointer, ghost.layout = SimpleNamespace(device=layout.device), pointer, layout
    return ghost


def _forward_plan(strides_in, biased, shape, stride, padding, dilation, groups):
    weight, kernel = strides_in.weight, three(strides_in.weight.shape[2:], 1)
    before = tuple([-size for size in padding])
    window = Window(three(shape[2:], 1), three(strides_in.x.shape[2:], 1), kernel, before, stride, dilation)
    if groups == strides_in.x.shape[1] and weight.shape[1] == 1:
        if shape[1] == groups and strides_in.last:
            strides_in.turns_x, strides_in.x = not has_channels_last(strides_in.x), strides_in.turn_one(strides_in.x)
        out = layout_like(shape, strides_in.x, strides_in.last)
        launch = _depthwise(strides_in.x, weight, weight, five_dims(_ghost(out, 0)), 0, biased, window)
        return strides_in.plan(out, [launch], False)
    strides_in.turn()
    turned = strides_in.last or not _plane(window, strides_in.x)
    out = layout_like(shape, strides_in.x, turned)
    sizes = (groups, weight.shape[0] // groups, weight.shape[1])
    launch = _correlate(
        strides_in.x, strides_in.weight, strides_in.weight, five_dims(_ghost(out, 0)), 0, biased, window, *sizes, False
    )
    return strides_in.plan(out, [launch], turned != strides_in.last)


def _backward_plan(strides_in, biased, shape, stride, padding, dilation, groups):
    """A launch for each residue of the input places by the stride."""
    weight = strides_in.weight
    depthwise = groups == strides_in.x.shape[1] and weight.shape[1] == 1
    if not depthwise:
        strides_in.turn()
    elif strides_in.last:
        strides_in.turns_x, strides_in.x = not has_channels_last(strides_in.x), strides_in.turn_one(strides_in.x)
    turned = strides_in.last or (not depthwise and math.prod(stride) > 1)
    out = layout_like(shape, strides_in.x, turned)
    five, w5, sizes = five_dims(_ghost(out, 0)), five_dims(strides_in.weight), three(strides_in.x.shape[2:], 1)
    launches = []
    options = zip(five.shape[2:], stride, padding, dilation, w5.shape[2:], strict=True)
    for phases in combinations(*[_phases(*option) for option in options]):
        part = five[(slice(None), slice(None), *[phase.places for phase in phases])]
        if not part.size:
            continue
        taps = w5[(slice(None), slice(None), *[phase.kernel for phase in phases])]
        window = Window(
            part.shape[2:], sizes, taps.shape[2:], tuple([phase.base for phase in phases]), (1, 1, 1),
            tuple([phase.step for phase in phases]),
        )  # fmt: skip
        if depthwise:
            launches.append(_depthwise(strides_in.x, strides_in.weight, taps, part, part.pointer, biased, window))
        else:
            kinds = (groups, weight.shape[1], weight.shape[0] // groups)
            launches.append(
                _correlate(
                    strides_in.x, strides_in.weight, taps, part, part.pointer, biased, window, *kinds, True, not turned
                )
            )
    return strides_in.plan(out, launches, turned != strides_in.last)


# --- many channels -------------------------------------------------------------------------------------------------------------


def _plane(window, like):
    """What divides the places of an image, up to 16 bytes of them; 0 where it is odd."""
    unit = math.gcd(math.prod(window.out), 16 // like.itemsize)
    return unit if unit > 1 else 0


def _correlate(x, whole, weight, out, offset, biased, window, groups, outer, inner, back, plane=True):
    """A launch that fills `out` (five dims; channels-last, or row-major and whole where `plane`) with `weight`, a part of `whole`."""
    x, weight = five_dims(x), five_dims(weight)
    size = x.itemsize
    tf32 = x.dtype == _float32 and precision.allows_tf32("cudnn")
    flat = inner < _FEW_CHANNELS
    places = out.shape[0] * math.prod(window.out)
    steps = [step // size for step in weight.strides]
    w_outer, w_inner = (steps[1], steps[0]) if back else (steps[0], steps[1])
    w_group = weight.shape[0] // groups * steps[0]
    per_group = weight.shape[1]
    w_unit = 16 // size
    if flat or weight.pointer % 16 or any([step % w_unit for step in (w_group, steps[0], *steps[2:], per_group)]):
        w_unit = 1
    unit = _plane(window, x) or 1 if plane and out.strides[1] != size else 0
    wide = power(outer, 128 if size == 2 else 64 if size == 4 else 32)
    high = 128 if size == 2 or tf32 else 64
    few = -(-places // high) * -(-outer // wide) * groups < processors(x)
    if few and not batch_invariant():
        high = 64 if size < 8 else 32
    depth = 16
    if size == 2 or tf32:
        depth = power(math.prod(window.taps) * inner if flat else inner, 64 if size == 2 else 32)
    constants = {
        "FLAT": flat, "TURNED": back, "PLANE": unit, "X_UNIT": 1 if flat else unit_of(x, inner), "W_UNIT": w_unit,
        "Y_UNIT": 1 if unit else unit_of(out, outer), "HAS_BIAS": biased, "PRECISION": "tf32" if tf32 else "ieee", "BM": high,
        "BN": wide, "BK": depth, "num_warps": 8 if high * wide >= 8192 else 4, "num_stages": 3,
    }  # fmt: skip
    numbers = (
        places, inner, outer, *numbers_of(window), *place_steps(x), w_group, w_outer, w_inner, *steps[2:],
        *[step // size for step in out.strides],
    )  # fmt: skip
    grid = (-(-places // high) * -(-outer // wide), groups)
    return Launch(device.correlate, grid, weight.pointer - whole.pointer, offset, numbers, constants)


class _Phase(NamedTuple):
    """The input places of one residue by the stride, and the taps that reach them."""

    places: slice
    kernel: slice
    base: int
    step: int


def _phases(size, stride, padding, dilation, taps):
    """Input place r + stride * j gets tap `first + period * i` from output place base + j + i * step, for each r below the stride."""
    common = math.gcd(dilation, stride)
    period = stride // common
    phases = []
    for residue in range(min(stride, size)):
        reach = residue + padding
        firsts = [tap for tap in range(min(period, taps)) if (tap * dilation - reach) % stride == 0]
        first = firsts[0] if firsts else taps
        base = (reach - first * dilation) // stride if firsts else 0
        phases.append(
            _Phase(slice(residue, size, stride), slice(first, taps, period), base, -(period * dilation) // stride)
        )
    return phases


# --- a group for each channel ----------------------------------------------------------------------------------------------------


def _depthwise(x, whole, weight, out, offset, biased, window):
    """A launch that fills `out` (five dims), in its own layout, with `weight`, a part of `whole`."""
    x, weight = five_dims(x), five_dims(weight)
    size = x.itemsize
    share = out.shape[1] // x.shape[1]
    places, channels = out.shape[0] * math.prod(window.out), out.shape[1]
    side_by_side = share == 1 and x.strides[1] == size and out.strides[1] == size
    wide = power(channels, 64) if side_by_side else 1
    high = 2048 // wide if side_by_side else 512
    steps = [step // size for step in weight.strides]
    numbers = (
        places, channels, share, *numbers_of(window), *[step // size for step in x.strides], steps[0], *steps[2:],
        *[step // size for step in out.strides],
    )  # fmt: skip
    common = min(unit_of(x, channels), unit_of(out, channels)) if side_by_side else 1
    constants = {"LAST": side_by_side, "UNIT": common, "HAS_BIAS": biased, "BP": high, "BC": wide, "num_warps": 4}
    grid = (-(-places // high) * -(-channels // wide),)
    return Launch(device.correlate_depthwise, grid, weight.pointer - whole.pointer, offset, numbers, constants)
