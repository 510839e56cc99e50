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

from dynograd.arrays.cuda_arrays import CudaArray, contiguous_strides, empty, layout_of, of_layout, operations
from dynograd.cuda import driver
from dynograd.kernels import convolutions_triton as device
from dynograd.kernels import matmuls_cuda, precision
from dynograd.kernels.batch_invariance import batch_invariant

__all__ = ["conv_forward", "conv_input_gradient", "conv_weight_gradient"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FEW_CHANNELS = 16  # below, taps and channels make one run: a tensor core takes 16 numbers at a time
_plans: dict[Any, Any] = {}
_MOST_PLANS = 20000
_float32, _float64 = numpy.dtype(numpy.float32), numpy.dtype(numpy.float64)


class Window(NamedTuple):
    """How output places read the input in three dims; see `convolutions_triton`."""

    out: tuple[int, ...]
    size: tuple[int, ...]
    taps: tuple[int, ...]
    base: tuple[int, ...]
    scale: tuple[int, ...]
    step: tuple[int, ...]


def conv_forward(x, weight, bias, stride, padding, dilation, groups):
    """Sum over channels and kernel of weight * x, plus a bias (CO,) or None: (N, CO, *sizes')."""
    if x.dtype.name not in _FLOATS:
        return _of_other_kinds(
            lambda x, w: conv_forward(x, w, None, stride, padding, dilation, groups), x, weight, bias
        )
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    shape = (
        x.shape[0], weight.shape[0], *[(size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in sizes],
    )  # fmt: skip
    if _is_pointwise(weight, stride, padding, groups):
        last = _is_channels_last(x) or _is_channels_last(weight)
        return _pointwise(x, weight.reshape(weight.shape[:2]), bias, shape, last)
    return _run(_forward_plan, x, weight, bias, shape, stride, padding, dilation, groups)


def conv_input_gradient(g, weight, bias, input_shape, stride, padding, dilation, groups):
    """Gradient of x of shape `input_shape`, plus a bias (C,) or None; input places that no kernel position touches get 0."""
    if g.dtype.name not in _FLOATS:
        return _of_other_kinds(
            lambda g, w: conv_input_gradient(g, w, None, input_shape, stride, padding, dilation, groups),
            g,
            weight,
            bias,
        )
    shape = tuple(input_shape)
    if _is_pointwise(weight, stride, padding, groups):
        last = _is_channels_last(g) or _is_channels_last(weight)
        return _pointwise(g, weight.reshape(weight.shape[:2]).T, bias, shape, last)
    return _run(_backward_plan, g, weight, bias, shape, stride, padding, dilation, groups)


def conv_weight_gradient(x, g, weight_shape, stride, padding, dilation, groups):
    """Gradient of the weight of shape `weight_shape`."""
    if x.dtype.name not in _FLOATS:
        return _of_other_kinds(
            lambda x, g: conv_weight_gradient(x, g, weight_shape, stride, padding, dilation, groups), x, g, None
        )
    shape = tuple(weight_shape)
    result = empty(shape, x.dtype, x.device_index)
    if not result.size:
        return result
    if math.prod(shape[2:]) == 1 and set(stride) == {1} and not any(padding) and groups == 1 and x.size and g.size:
        x, g = (_channels_last(one) for one in (x, g))
        rows, given = (_moved(one).reshape(-1, one.shape[1]) for one in (x, g))
        return matmuls_cuda.multiply(given.T, rows, tf32="cudnn").reshape(shape)
    stride, padding, dilation = _three(stride, 1), _three(padding, 0), _three(dilation, 1)
    kernel, out = _three(shape[2:], 1), _three(g.shape[2:], 1)
    window = Window(out, _three(x.shape[2:], 1), kernel, tuple([-p for p in padding]), stride, dilation)
    if groups == x.shape[1] and shape[1] == 1:
        return _depthwise_weights(x, g, result, window)
    x, g = _five(_channels_last(x)), _five(_channels_last(g))
    outer, inner, taps, places = shape[0] // groups, shape[1], math.prod(kernel), x.shape[0] * math.prod(out)
    size, half = x.itemsize, x.itemsize == 2
    tf32 = x.dtype == _float32 and precision.allows_tf32("cudnn")
    flat = inner < _FEW_CHANNELS
    most = 128 if half else 64 if size == 4 else 32
    high, wide = _power(outer, most), _power(inner * (taps if flat else 1), min(most, 64))
    depth = 16 if size > 2 and not tf32 else 32 if flat or size > 2 else 64
    columns = -(-taps * inner // wide) if flat else taps * -(-inner // wide)
    tiles = -(-outer // high) * columns
    splits = max(1, min(2 * _processors(x) // (tiles * groups), places // (8 * depth), 256))
    span = -(-places // (splits * depth)) * depth if places else depth
    splits = max(1, -(-places // span))
    parts = empty((splits, shape[0], taps, inner), _float64 if size == 8 else _float32, x.device_index)
    device.correlate_weights(
        (tiles, groups, splits), x, g, parts, places, inner, outer, span, *_numbers(window), *_steps(x), *_steps(g), FLAT=flat,
        X_UNIT=1 if flat else _unit(x, inner), G_UNIT=_unit(g, outer), PRECISION="tf32" if tf32 else "ieee", BM=high, BN=wide,
        BK=depth, num_warps=8 if high * wide >= 8192 else 4, num_stages=3,
    )  # fmt: skip
    total = empty(parts.shape[1:], x.dtype, x.device_index)
    matmuls_cuda.add_parts(parts, total, None, 1)
    if taps == 1 or inner == 1:
        return total.reshape(shape)
    operations.copy_into(result.reshape(shape[0], inner, taps), total.transpose(0, 2, 1))
    return result


# --- kernels of one place ------------------------------------------------------------------------------------------------------


def _is_pointwise(weight, stride, padding, groups):
    return math.prod(weight.shape[2:]) == 1 and set(stride) == {1} and not any(padding) and groups == 1


def _pointwise(x, weight, bias, shape, last):
    """A product of the places' channels with `weight` (CO, C)."""
    if not last and bias is None and not _is_channels_last(x):
        places = math.prod(x.shape[2:])
        return matmuls_cuda.multiply(weight, x.reshape(x.shape[0], x.shape[1], places), tf32="cudnn").reshape(shape)
    rows = _moved(_channels_last(x)).reshape(
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
        options = _three(stride, 1), _three(padding, 0), _three(dilation, 1), groups
        plan = _plans[key] = planned(_Ghosts(x, weight), bias is not None, shape, *options)
    x = _channels_last(x) if plan.turns_x else x
    weight = _channels_last(weight) if plan.turns_weight else weight
    out = of_layout(plan.out)
    for one in plan.launches:
        taps = weight.as_strided((1,), (weight.itemsize,), one.weight) if one.weight else weight
        part = out.as_strided((1,), (out.itemsize,), one.out) if one.out else out
        one.kernel(one.grid, x, taps, part, x if bias is None else bias, *one.numbers, **one.constants)
    return out.copy() if plan.turned else out


class _Ghosts:
    """Arrays without memory, with which a plan is made: the operands, as they are or channels-last, and the result."""

    def __init__(self, x, weight):
        self.last = _is_channels_last(x) or _is_channels_last(weight)
        self.turns_x = self.turns_weight = False
        self.x, self.weight = _ghost(x.layout, x.pointer % 16), _ghost(weight.layout, weight.pointer % 16)

    def turn(self):
        """Operands channels-last."""
        self.turns_x, self.turns_weight = not _has_channels_last(self.x), not _has_channels_last(self.weight)
        self.x, self.weight = self.turn_one(self.x), self.turn_one(self.weight)

    def turn_one(self, array):
        return array if _has_channels_last(array) else _ghost(_layout(array.shape, array, True), 0)

    def plan(self, out, launches, turned):
        return Plan(self.turns_x, self.turns_weight, out, launches if out.size else [], turned)


def _ghost(layout, pointer):
    made = object.__new__(CudaArray)
    made.storage, made.pointer, made.layout = SimpleNamespace(device=layout.device), pointer, layout
    return made


def _forward_plan(given, biased, shape, stride, padding, dilation, groups):
    weight, kernel = given.weight, _three(given.weight.shape[2:], 1)
    before = tuple([-one for one in padding])
    window = Window(_three(shape[2:], 1), _three(given.x.shape[2:], 1), kernel, before, stride, dilation)
    if groups == given.x.shape[1] and weight.shape[1] == 1:
        if shape[1] == groups and given.last:
            given.turns_x, given.x = not _has_channels_last(given.x), given.turn_one(given.x)
        out = _layout(shape, given.x, given.last)
        launch = _depthwise(given.x, weight, weight, _five(_ghost(out, 0)), 0, biased, window)
        return given.plan(out, [launch], False)
    given.turn()
    turned = given.last or not _plane(window, given.x)
    out = _layout(shape, given.x, turned)
    sizes = (groups, weight.shape[0] // groups, weight.shape[1])
    launch = _correlate(given.x, given.weight, given.weight, _five(_ghost(out, 0)), 0, biased, window, *sizes, False)
    return given.plan(out, [launch], turned != given.last)


def _backward_plan(given, biased, shape, stride, padding, dilation, groups):
    """A launch for each residue of the input places by the stride."""
    weight = given.weight
    depthwise = groups == given.x.shape[1] and weight.shape[1] == 1
    if not depthwise:
        given.turn()
    elif given.last:
        given.turns_x, given.x = not _has_channels_last(given.x), given.turn_one(given.x)
    turned = given.last or (not depthwise and math.prod(stride) > 1)
    out = _layout(shape, given.x, turned)
    five, w5, sizes = _five(_ghost(out, 0)), _five(given.weight), _three(given.x.shape[2:], 1)
    launches = []
    options = zip(five.shape[2:], stride, padding, dilation, w5.shape[2:], strict=True)
    for phases in combinations(*[_phases(*one) for one in options]):
        part = five[(slice(None), slice(None), *[phase.places for phase in phases])]
        if not part.size:
            continue
        taps = w5[(slice(None), slice(None), *[phase.kernel for phase in phases])]
        window = Window(
            part.shape[2:], sizes, taps.shape[2:], tuple([phase.base for phase in phases]), (1, 1, 1),
            tuple([phase.step for phase in phases]),
        )  # fmt: skip
        if depthwise:
            launches.append(_depthwise(given.x, given.weight, taps, part, part.pointer, biased, window))
        else:
            kinds = (groups, weight.shape[1], weight.shape[0] // groups)
            launches.append(
                _correlate(given.x, given.weight, taps, part, part.pointer, biased, window, *kinds, True, not turned)
            )
    return given.plan(out, launches, turned != given.last)


# --- many channels -------------------------------------------------------------------------------------------------------------


def _plane(window, like):
    """What divides the places of an image, up to 16 bytes of them; 0 where it is odd."""
    unit = math.gcd(math.prod(window.out), 16 // like.itemsize)
    return unit if unit > 1 else 0


def _correlate(x, whole, weight, out, offset, biased, window, groups, outer, inner, back, plane=True):
    """A launch that fills `out` (five dims; channels-last, or row-major and whole where `plane`) with `weight`, a part of `whole`."""
    x, weight = _five(x), _five(weight)
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
    wide = _power(outer, 128 if size == 2 else 64 if size == 4 else 32)
    high = 128 if size == 2 or tf32 else 64
    few = -(-places // high) * -(-outer // wide) * groups < _processors(x)
    if few and not batch_invariant():
        high = 64 if size < 8 else 32
    depth = 16
    if size == 2 or tf32:
        depth = _power(math.prod(window.taps) * inner if flat else inner, 64 if size == 2 else 32)
    constants = {
        "FLAT": flat, "TURNED": back, "PLANE": unit, "X_UNIT": 1 if flat else _unit(x, inner), "W_UNIT": w_unit,
        "Y_UNIT": 1 if unit else _unit(out, outer), "HAS_BIAS": biased, "PRECISION": "tf32" if tf32 else "ieee", "BM": high,
        "BN": wide, "BK": depth, "num_warps": 8 if high * wide >= 8192 else 4, "num_stages": 3,
    }  # fmt: skip
    numbers = (
        places, inner, outer, *_numbers(window), *_steps(x), w_group, w_outer, w_inner, *steps[2:],
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
    found = []
    for residue in range(min(stride, size)):
        reach = residue + padding
        firsts = [tap for tap in range(min(period, taps)) if (tap * dilation - reach) % stride == 0]
        first = firsts[0] if firsts else taps
        base = (reach - first * dilation) // stride if firsts else 0
        found.append(
            _Phase(slice(residue, size, stride), slice(first, taps, period), base, -(period * dilation) // stride)
        )
    return found


# --- a group for each channel ----------------------------------------------------------------------------------------------------


def _depthwise(x, whole, weight, out, offset, biased, window):
    """A launch that fills `out` (five dims), in its own layout, with `weight`, a part of `whole`."""
    x, weight = _five(x), _five(weight)
    size = x.itemsize
    share = out.shape[1] // x.shape[1]
    places, channels = out.shape[0] * math.prod(window.out), out.shape[1]
    side_by_side = share == 1 and x.strides[1] == size and out.strides[1] == size
    wide = _power(channels, 64) if side_by_side else 1
    high = 2048 // wide if side_by_side else 512
    steps = [step // size for step in weight.strides]
    numbers = (
        places, channels, share, *_numbers(window), *[step // size for step in x.strides], steps[0], *steps[2:],
        *[step // size for step in out.strides],
    )  # fmt: skip
    constants = {"LAST": side_by_side, "HAS_BIAS": biased, "BP": high, "BC": wide, "num_warps": 4}
    grid = (-(-places // high) * -(-channels // wide),)
    return Launch(device.correlate_depthwise, grid, weight.pointer - whole.pointer, offset, numbers, constants)


def _depthwise_weights(x, g, result, window):
    size = x.itemsize
    share = g.shape[1] // x.shape[1]
    last = _is_channels_last(x) or _is_channels_last(g)
    if last and share == 1:
        x, g = _channels_last(x), _channels_last(g)
    x, g = _five(x), _five(g)
    side_by_side = share == 1 and x.strides[1] == size and g.strides[1] == size
    channels, taps, places = g.shape[1], math.prod(window.taps), g.shape[0] * math.prod(window.out)
    wide = _power(channels, 64) if side_by_side else 1
    high = 2048 // wide if side_by_side else 512
    blocks = -(-channels // wide)
    splits = max(1, min(4 * _processors(x) // (taps * blocks), places // (4 * high), 256))
    span = -(-places // (splits * high)) * high if places else high
    splits = max(1, -(-places // span))
    parts = empty((splits, channels, taps), _float64 if size == 8 else _float32, x.device_index)
    device.correlate_depthwise_weights(
        (taps, blocks, splits), x, g, parts, places, channels, share, span, *_numbers(window),
        *[step // size for step in x.strides], *[step // size for step in g.strides], LAST=side_by_side, BP=high, BC=wide,
        num_warps=4,
    )  # fmt: skip
    matmuls_cuda.add_parts(parts, result, None, 1)
    return result


# --- layouts -------------------------------------------------------------------------------------------------------------------


def _three(numbers, missing):
    return (*(missing,) * (3 - len(numbers)), *numbers)


def _numbers(window):
    return [number for part in window for number in part]


def _five(array):
    """A view with three spatial dims."""
    return array if array.ndim == 5 else array[(slice(None), slice(None), *(None,) * (5 - array.ndim))]


def _steps(array):
    """Strides of images and places in elements, of five dims."""
    return [step // array.itemsize for step in (array.strides[0], *array.strides[2:])]


def _moved(array):
    """A view with channels last."""
    return array.transpose(0, *range(2, array.ndim), 1)


def _is_channels_last(array):
    """Whether memory holds the channels of a place side by side, and is not row-major as well."""
    if array.ndim < 4 or array.is_contiguous:
        return False
    return _moved(array).is_contiguous


def _has_channels_last(array):
    """Whether the channels of a place lie side by side."""
    size = array.itemsize
    return (array.strides[1] == size or array.shape[1] == 1) and not any([step % size for step in array.strides])


def _channels_last(array):
    """The array, or a copy, so that the channels of a place lie side by side."""
    if _has_channels_last(array):
        return array
    made = of_layout(_layout(array.shape, array, True))
    operations.copy_into(made, array)
    return made


def _layout(shape, like, last):
    """The layout of a new array, row-major or channels-last."""
    kind, index = like.dtype, like.device_index
    if not last:
        return layout_of(shape, contiguous_strides(shape, kind.itemsize), kind, index)
    steps = contiguous_strides((shape[0], *shape[2:], shape[1]), kind.itemsize)
    return layout_of(shape, (steps[0], steps[-1], *steps[1:-1]), kind, index)


def _unit(array, channels):
    """Elements of 16 bytes, where so many divide a group's channels and all strides; else 1."""
    unit = 16 // array.itemsize
    steps = [step for place, step in enumerate(array.strides) if place != 1 and array.shape[place] > 1]
    return 1 if array.pointer % 16 or channels % unit or any([step % 16 for step in steps]) else unit


def _power(number, most):
    """The power of two from 16 to `most` that holds `number`."""
    return min(most, max(16, 1 << (max(number, 1) - 1).bit_length()))


def _processors(array: CudaArray) -> int:
    return driver.get("convolution").attribute(array.device_index, "multiprocessor_count")


# --- integers, complex numbers ---------------------------------------------------------------------------------------------------


def _of_other_kinds(function: Any, one: CudaArray, two: CudaArray, bias: Any) -> CudaArray:
    """A bilinear function of integers by float64 (exact up to 2**53), of complex numbers by their parts."""
    if one.dtype.kind == "c":
        a, b, c, d = one.real.copy(), one.imag.copy(), two.real.copy(), two.imag.copy()
        real, imaginary = function(a, c) - function(b, d), function(a, d) + function(b, c)
        out = empty(real.shape, one.dtype, one.device_index)
        operations.copy_into(out.real, real)
        operations.copy_into(out.imag, imaginary)
    else:
        out = function(one.astype(_float64), two.astype(_float64)).astype(one.dtype)
    return out if bias is None else out + bias.reshape(-1, *(1,) * (out.ndim - 2))
