"""Convolutions, pooling, padding and resampling."""

from __future__ import annotations

import math
from typing import Any

import numpy

from dynograd.onnx.writers.calls import Call, writer

__all__: list[str] = []


def _sides(padding: Any) -> list[int]:
    """Padding in front of each dim, then behind each."""
    pairs = [side if isinstance(side, tuple) else (side, side) for side in padding]
    return [front for front, _ in pairs] + [back for _, back in pairs]


@writer("convolution")
def convolution(call: Call) -> str:
    names = [call.input(name) for name in ("input", "weight", "bias") if call.has(name)]
    options = dict(
        strides=call.static("stride"), pads=_sides(call.static("padding")), dilations=call.static("dilation")
    )
    return call.node("Conv", names, group=call.static("groups"), **options)


@writer("convolution_input_gradient")
def transposed_convolution(call: Call) -> str:
    names = [call.input(name) for name in ("g", "weight", "bias") if call.has(name)]
    strides, dilations, pads = call.static("stride"), call.static("dilation"), _sides(call.static("padding"))
    rank = len(strides)
    more, cut = (
        [],
        [],
    )  # what is added behind each dim, and the dims that are cut to their size where that depends on the sizes
    for axis in range(rank):
        window = call.dims(axis - rank, "weight")
        excess = {
            size - ((own - 1) * strides[axis] - pads[axis] - pads[axis + rank] + dilations[axis] * (width - 1) + 1)
            for size, own, width in zip(
                [shape[axis - rank] for shape in call.result_shapes()], call.dims(axis - rank, "g"), window
            )
        }
        more.append(max(excess))
        if len(excess) > 1:
            cut.append(axis - rank)
    options = dict(strides=strides, pads=pads, dilations=dilations, output_padding=more)
    name = call.node("ConvTranspose", names, group=call.static("groups"), **options)
    if not cut:
        return name
    ends = call.builder.numbers([[shape[axis] for axis in cut] for shape in call.result_shapes()])
    return call.node("Slice", [name, call.ints(*[0] * len(cut)), ends, call.ints(*cut)])


@writer("max_pool", "max_pool_values")
def max_pool(call: Call) -> list[str]:
    sizes, strides, padding, dilation, ceil = call.static("window")[:5]
    return _largest(call, sizes, strides=strides, pads=_sides(padding), dilations=dilation, ceil_mode=int(ceil))


def _largest(call: Call, sizes: tuple[int, ...], **options: Any) -> list[str]:
    """The largest of each window, and its place in its image: ONNX counts that through all images."""
    name, rank = call.input("input"), len(sizes)
    alone = call.rank() == rank + 1
    name = call.unsqueeze(name, 0) if alone else name
    names = call.nodes_of("MaxPool", [name], call.count, kernel_shape=sizes, **options)
    if call.count == 2:
        areas = [math.prod(shape[-rank:]) for shape in call.shapes()]
        names[1] = call.node("Mod", [names[1], call.builder.number(areas)])
    return [call.squeeze(name, 0) for name in names] if alone else names


@writer("max_unpool")
def max_unpool(call: Call) -> str:
    """Zeros with the maxima at their places in each image."""
    rank = len(call.each("sizes")[0])
    own = [[*shape[:-rank], math.prod(shape[-rank:])] for shape in call.shapes()]
    whole = [[*shape[:-rank], math.prod(sizes)] for shape, sizes in zip(call.shapes(), call.each("sizes"))]
    values, places = [call.reshape(call.input(name), own) for name in ("input", "indices")]
    zeros = call.node("Expand", [call.number(0), call.builder.numbers(whole)])
    names = [zeros, call.cast(places, numpy.int64), values]
    return call.reshape(call.node("ScatterElements", names, axis=len(own[0]) - 1), call.result_shapes())


@writer("adaptive_max_pool")
def adaptive_max_pool(call: Call) -> list[str]:
    sizes = call.static("sizes")
    if any([len({*call.dims(call.rank() - len(sizes) + axis)}) > 1 for axis in range(len(sizes))]):
        return _largest_at_any_size(call, sizes)
    lengths = [call.fixed(axis - len(sizes)) for axis in range(len(sizes))]
    if any([length % size for length, size in zip(lengths, sizes)]):
        return _largest_of_each(call, sizes, lengths)
    windows = tuple([length // size for length, size in zip(lengths, sizes)])
    return _largest(call, windows, strides=windows)


def _largest_of_each(call: Call, sizes: tuple[int, ...], lengths: list[int]) -> list[str]:
    """Windows of different sizes, one by one: elements are picked at their places in the image."""
    rank = call.rank() - len(sizes)
    places = numpy.arange(math.prod(lengths)).reshape(lengths)
    flat = call.reshape(call.input("input"), [[*shape[:rank], math.prod(lengths)] for shape in call.shapes()])
    values, indices = [], []
    for cell in numpy.ndindex(*sizes):
        window = tuple([_window(place, length, size) for place, length, size in zip(cell, lengths, sizes)])
        own = call.constant(places[window].reshape(-1))
        elements = call.node("Gather", [flat, own], axis=rank)
        values.append(call.reduce("ReduceMax", elements, [rank], True))
        indices.append(call.node("Gather", [own, call.node("ArgMax", [elements], axis=rank)], axis=0))
    return [call.reshape(call.node("Concat", names, axis=rank), call.result_shapes()) for names in (values, indices)][
        : call.count
    ]


def _window(place: int, length: int, count: int) -> slice:
    """The elements of one of `count` windows that share a dim out among themselves."""
    return slice(place * length // count, -(-(place + 1) * length // count))


@writer("avg_pool")
def avg_pool(call: Call) -> str:
    sizes, strides, padding, ceil, counts_padding, divisor = call.static("window")
    rank = call.rank()
    name = call.input("input")
    name = call.unsqueeze(name, 0) if rank == len(sizes) + 1 else name
    counts = int(bool(counts_padding) or divisor is not None)
    options = dict(kernel_shape=sizes, strides=strides or sizes, pads=_sides(padding), ceil_mode=int(ceil))
    name = call.node("AveragePool", [name], count_include_pad=counts, **options)
    if divisor is not None:
        name = call.node("Mul", [name, call.number(numpy.prod(sizes) / divisor)])
    return call.squeeze(name, 0) if rank == len(sizes) + 1 else name


@writer("adaptive_avg_pool")
def adaptive_avg_pool(call: Call) -> str:
    samples, rank, name = call.each("sizes"), call.rank(), call.input("input")
    sizes = samples[0]
    if all([set(own) == {1} for own in samples]):
        return call.reduce("ReduceMean", name, list(range(rank - len(sizes), rank)), True)
    for number, count in enumerate(sizes):
        axis = rank - len(sizes) + number
        counts = [own[number] for own in samples]
        if counts == call.dims(axis):
            continue
        if len({*counts}) > 1:
            raise call.refused(f"to a size that follows from the input's ({counts[0]}, {counts[1]})")
        is_within = _within_windows(call, axis, count)
        shares = call.cast(is_within, call.dtype)
        shares = call.node("Div", [shares, call.reduce("ReduceSum", shares, [1], True)])
        order = [*range(axis), *range(axis + 1, rank), axis]
        product = call.node("MatMul", [call.transpose(name, order), call.transpose(shares, (1, 0))])
        name = call.transpose(product, [*range(axis), rank - 1, *range(axis, rank - 1)])
    return name


def _within_windows(call: Call, axis: int, count: int) -> str:
    """(count, length of the axis): which places are in which window."""
    length, step = call.builder.number(call.dims(axis)), call.constant(1, numpy.int64)
    places = call.node("Range", [call.constant(0, numpy.int64), call.squeeze(length, 0), step])
    first = call.node("Mul", [call.constant(numpy.arange(count)[:, None]), length])
    starts = call.node("Div", [first, call.ints(count)])
    last = call.node("Add", [call.node("Add", [first, length]), call.ints(count - 1)])
    ends = call.node("Div", [last, call.ints(count)])
    return call.node("And", [call.node("GreaterOrEqual", [places, starts]), call.node("Less", [places, ends])])


def _largest_at_any_size(call: Call, sizes: tuple[int, ...]) -> list[str]:
    """The largest of each window, one axis after the other from the last one on, and where it stands among the elements of an image."""
    rank, name, index, step = call.rank(), call.input("input"), "", call.ints(1)
    lowest = -math.inf if call.dtype.kind == "f" else numpy.iinfo(call.dtype).min
    for number, count in reversed([*enumerate(sizes)]):
        axis = rank - len(sizes) + number
        windows = call.unsqueeze(_within_windows(call, axis, count), *range(2, rank - axis + 1))
        own = call.node("Where", [windows, call.unsqueeze(name, axis), call.number(lowest)])
        name = call.reduce("ReduceMax", own, [axis + 1], False)
        place = call.node("ArgMax", [own], axis=axis + 1, keepdims=0)
        before = call.node("GatherElements", [index, place], axis=axis) if index else ""
        index = call.node("Mul", [place, step])
        index = call.node("Add", [index, before]) if before else index
        step = call.node("Mul", [step, call.builder.number(call.dims(axis))])
    return [name, index][: call.count]


def _pads(call: Call) -> str:
    """Padding of each dim, front ones first, as the op's sides of the last dims."""
    rank = call.rank()
    rows = []
    for sides in call.each("sides"):
        none = [0] * (rank - len(sides))
        rows.append([*none, *[front for front, _ in sides], *none, *[back for _, back in sides]])
    return call.builder.numbers(rows)


@writer("constant_pad_nd")
def constant_pad(call: Call) -> str:
    name = call.input("input")
    is_truth = call.dtype == bool
    if is_truth:
        name = call.cast(name, numpy.int32)
    value = call.constant(call.static("value"), numpy.int32 if is_truth else call.dtype)
    name = call.node("Pad", [name, _pads(call), value])
    return call.cast(name, bool) if is_truth else name


@writer("mirrored_pad")
def mirrored_pad(call: Call) -> str:
    border = call.static("border")
    mode = {"reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap", "wrap": "wrap"}[border]
    if mode == "wrap" and call.builder.opset < 19:
        raise call.refused("around the border before opset 19")
    return call.node("Pad", [call.input("input"), _pads(call)], mode=mode)


_RESIZE_OPTIONS: dict[str, dict[str, Any]] = {
    "nearest": {"nearest_mode": "floor"},
    "cubic": {"cubic_coeff_a": -0.75},
}


@writer("resample")
def resample(call: Call) -> str:
    """One dim becomes longer or shorter, by weights where its size stays and by Resize where that is nearest or linear.

    A factor is written as such: of a size that it does not divide, the places lie elsewhere than by the ratio of the sizes.
    """
    rule, axis, rank = call.static("rule"), call.axis(), call.rank()
    if call.each("scale") == [None] * len(call.nodes) and call.dims(axis) == call.each("count"):
        return call.input("input")
    if rule == "nearest" and any([count % size for count, size in zip(call.each("count"), call.dims(axis))]):
        return _nearest(call, axis)
    is_fixed = len({*call.dims(axis)}) == len({*call.each("count")}) == 1
    by_weights = rule != "cubic" or rank != 4 or is_fixed
    if rule not in ("nearest", "linear") and by_weights:
        return _by_weights(call, axis, rank)
    corners = call.static("align_corners")
    where = "asymmetric" if rule == "nearest" else "align_corners" if corners else "half_pixel"
    options = _RESIZE_OPTIONS.get(rule, {})
    step = call.static("scale")
    if step is None or where == "align_corners":
        new_sizes = ["", call.builder.numbers(call.result_shapes())]
    else:
        new_sizes = [call.constant([1 / step if place == axis else 1 for place in range(rank)], numpy.float32)]
    names = [call.input("input"), "", *new_sizes]
    return call.node("Resize", names, mode=rule, coordinate_transformation_mode=where, **options)


def _nearest(call: Call, axis: int) -> str:
    """The places are computed in float32 by the inverse of the factor, as in the op: runtimes divide by the factor, and take others."""
    kind = numpy.float32
    sizes, counts = [call.builder.scalar(numbers) for numbers in (call.dims(axis), call.each("count"))]
    if call.each("scale")[0] is None:
        step = call.node("Div", [call.cast(sizes, kind), call.cast(counts, kind)])
    else:
        step = call.constant(call.static("scale"), kind)
    order = call.node("Range", [call.constant(0, numpy.int64), counts, call.constant(1, numpy.int64)])
    places = call.cast(call.node("Floor", [call.node("Mul", [call.cast(order, kind), step])]), numpy.int64)
    last = call.node("Sub", [sizes, call.constant(1, numpy.int64)])
    return call.node("Gather", [call.input("input"), call.node("Min", [places, last])], axis=axis)


def _by_weights(call: Call, axis: int, rank: int) -> str:
    """A product with the matrix that the op is."""
    from dynograd.ops.image.interpolations import resample as op
    from dynograd.tensor.tensor import Tensor

    size = call.fixed(axis)
    arguments = [call.static(name) for name in ("count", "rule", "align_corners", "scale")]
    matrix = op(Tensor.wrap(numpy.eye(size, dtype=numpy.float32)), 1, *arguments).array
    order = [*range(axis), *range(axis + 1, rank), axis]
    product = call.node("MatMul", [call.transpose(call.input("input"), order), call.number(matrix)])
    return call.transpose(product, [*range(axis), rank - 1, *range(axis, rank - 1)])


@writer("columns_of_patches")
def columns_of_patches(call: Call) -> str:
    """A convolution whose filters pick one place of a window each."""
    filters, options = _picking(call, call.fixed(1))
    columns = call.node("Conv", [call.input("input"), filters], **options)
    return call.reshape(columns, call.result_shapes())


@writer("patches_of_columns")
def patches_of_columns(call: Call) -> str:
    """The transpose of that convolution."""
    kernel, dilation, padding, stride = call.static("window")
    (height, width), channels = call.static("sizes"), call.result_shapes()[0][1]
    counts = [
        (size + 2 * pad - step * (own - 1) - 1) // by + 1
        for size, own, step, pad, by in zip((height, width), kernel, dilation, padding, stride)
    ]
    more = [
        size - ((count - 1) * by - 2 * pad + step * (own - 1) + 1)
        for size, count, own, step, pad, by in zip((height, width), counts, kernel, dilation, padding, stride)
    ]
    filters, options = _picking(call, channels)
    windows = call.reshape(call.input("input"), [[*shape[:2], *counts] for shape in call.shapes()])
    return call.node("ConvTranspose", [windows, filters], output_padding=more, **options)


def _picking(call: Call, channels: int) -> tuple[str, dict[str, Any]]:
    """Filters of a convolution, one for each channel and place of a window, and its options."""
    kernel, dilation, padding, stride = call.static("window")
    area = kernel[0] * kernel[1]
    filters = numpy.tile(numpy.eye(area), (channels, 1)).reshape(channels * area, 1, *kernel)
    options = dict(group=channels, strides=stride, pads=_sides(padding), dilations=dilation)
    return call.number(filters), options
