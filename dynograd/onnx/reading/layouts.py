"""Shapes, views, joins, padding, and tensors that are made of numbers."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.base.dtypes import of_array
from dynograd.nn import functional
from dynograd.onnx.reading.registry import operator
from dynograd.onnx.reading.values import (
    Numbers,
    Results,
    TypedNumber,
    dtype_of,
    dynograd,
    ints,
    number,
    tensor_of_sizes,
)
from dynograd.tensor.tensor import Tensor


@operator("Reshape")
def reshape(x: Tensor, shape: Numbers, *, allowzero: int = 0) -> Tensor:
    sizes = ints(shape)
    if not allowzero:
        sizes = [x.shape[dim] if size == 0 else size for dim, size in enumerate(sizes)]
    return x.reshape(sizes)


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    axis = axis + x.ndim if axis < 0 else axis
    rows = 1
    for size in x.shape[:axis]:
        rows *= size
    return x.reshape(rows, x.numel() // rows if rows else 0)


@operator("Transpose")
def transpose(x: Tensor, *, perm: Any = None) -> Tensor:
    return x.permute(perm or list(range(x.ndim))[::-1])


@operator("Squeeze", since=13)
def squeeze(x: Tensor, axes: Numbers | None = None) -> Tensor:
    return x.squeeze() if axes is None else x.squeeze(tuple(ints(axes)))


@operator("Squeeze")
def squeeze_1(x: Tensor, *, axes: Any = None) -> Tensor:
    return squeeze(x, axes)


@operator("Unsqueeze", since=13)
def unsqueeze(x: Tensor, axes: Numbers) -> Tensor:
    dims = ints(axes)
    for axis in sorted(axis % (x.ndim + len(dims)) for axis in dims):
        x = x.reshape(*x.shape[:axis], 1, *x.shape[axis:])
    return x


@operator("Unsqueeze")
def unsqueeze_1(x: Tensor, *, axes: Any) -> Tensor:
    return unsqueeze(x, axes)


@operator("Concat")
def concat(*xs: Tensor, axis: int) -> Tensor:
    if not isinstance(xs[0], Tensor):
        return numpy.concatenate(xs, axis)
    return dynograd.cat(xs, axis)


@operator("Split", since=13, outputs=0)
def split(x: Tensor, sizes: Numbers | None = None, *, axis: int = 0, num_outputs: int = 0, n_outputs: int) -> Results:
    if sizes is None:
        size = -(-x.shape[axis] // n_outputs)
        parts = [size] * (n_outputs - 1)
        sizes = [*parts, x.shape[axis] - sum(parts)]
    pieces = dynograd.split(x, ints(sizes), axis)
    return pieces if n_outputs > 1 else pieces[0]


@operator("Split", outputs=0)
def split_1(x: Tensor, *, split: Any = None, axis: int = 0, n_outputs: int) -> Results:
    return _split(x, split, axis=axis, n_outputs=n_outputs)


_split = split


@operator("Slice", since=10)
def slice_of(
    x: Tensor, starts: Numbers, ends: Numbers, axes: Numbers | None = None, steps: Numbers | None = None
) -> Tensor:
    count = len(ints(starts))
    dims, strides = range(count) if axes is None else ints(axes), [1] * count if steps is None else ints(steps)
    for axis, start, end, step in zip(dims, ints(starts), ints(ends), strides):
        low, high, step = slice(start, end, step).indices(x.shape[axis])
        if step < 0:
            x = dynograd.index_select(x, axis, dynograd.tensor(list(range(low, high, step)), dtype=dynograd.int64))
        else:
            x = x[(slice(None),) * (axis % x.ndim) + (slice(low, max(low, high), step),)]
    return x


@operator("Slice")
def slice_1(x: Tensor, *, starts: Any, ends: Any, axes: Any = None) -> Tensor:
    return slice_of(x, starts, ends, axes)


@operator("Shape")
def shape_of(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return dynograd.tensor(list(x.shape)[start:end], dtype=dynograd.int64)


@operator("Size")
def size_of(x: Tensor) -> Tensor:
    return dynograd.tensor(int(numpy.prod(x.shape)), dtype=dynograd.int64)


@operator("Expand")
def expand(x: Tensor, shape: Numbers) -> Tensor:
    return x.expand(numpy.broadcast_shapes(tuple(x.shape), tuple(ints(shape))))


@operator("Tile")
def tile(x: Tensor, repeats: Numbers) -> Tensor:
    return x.repeat(ints(repeats))


@operator("Pad", since=11)
def pad(
    x: Tensor, pads: Numbers, value: Numbers | None = None, axes: Numbers | None = None, *, mode: Any = "constant"
) -> Tensor:
    amounts = ints(pads)
    dims = range(x.ndim) if axes is None else [axis % x.ndim for axis in ints(axes)]
    half = len(amounts) // 2
    for axis, before, behind in zip(dims, amounts[:half], amounts[half:]):
        size = x.shape[axis]
        if mode == "constant":
            x = functional.pad(
                x, [0, 0] * (x.ndim - 1 - axis) + [before, behind], value=0 if value is None else number(value)
            )
        else:
            places = numpy.arange(size)[max(-before, 0) : size - max(-behind, 0)]
            places = numpy.pad(places, (max(before, 0), max(behind, 0)), mode=mode)
            x = dynograd.index_select(x, axis, tensor_of_sizes(places))
    return x


@operator("Pad")
def pad_1(x: Tensor, *, pads: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    return pad(x, pads, [value], mode=mode)


@operator("CenterCropPad")
def center_crop_pad(x: Tensor, shape: Numbers, *, axes: Any = None) -> Tensor:
    for axis, size in zip(range(x.ndim) if axes is None else axes, ints(shape)):
        extra = size - x.shape[axis]
        if extra < 0:
            x = x.narrow(axis, -extra // 2, size)
        else:
            x = pad(x, [extra // 2, extra - extra // 2], axes=[axis])
    return x


@operator("ConstantOfShape")
def constant_of_shape(shape: Numbers, *, value: Any = None) -> Tensor:
    value = dynograd.zeros(1) if value is None else value
    return value.reshape([]).expand(ints(shape))


@operator("Range")
def range_of(start: TypedNumber, limit: TypedNumber, delta: TypedNumber) -> Tensor:
    dtype = start.dtype if isinstance(start, Tensor) else of_array(numpy.asarray(start))
    return dynograd.arange(number(start), number(limit), number(delta), dtype=dtype)


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    ones = dynograd.ones(*x.shape, dtype=x.dtype if dtype is None else dtype_of(dtype))
    return ones.tril(k).triu(k)


@operator("Trilu")
def triangle(x: Tensor, k: Numbers | None = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else int(number(k))
    return dynograd.triu(x, diagonal) if upper else dynograd.tril(x, diagonal)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        y = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c // (b * b), b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c // (b * b), h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        y = x.reshape(n, c, h // b, b, w // b, b).permute(0, 1, 3, 5, 2, 4)
        return y.reshape(n, c * b * b, h // b, w // b)
    return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    x = x.movedim((batch_axis, time_axis), (0, 1))
    time = dynograd.arange(x.shape[1])[None]
    lengths = lengths[:, None]
    places = dynograd.where(time < lengths, lengths - 1 - time, time)
    return x[dynograd.arange(x.shape[0])[:, None], places].movedim((0, 1), (batch_axis, time_axis))
