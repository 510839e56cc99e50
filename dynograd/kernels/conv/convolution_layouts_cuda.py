"""Layouts of convolutions' arrays on the GPU: windows in three dims, channels-last arrays, what can be read in wide pieces."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from dynograd.arrays.cuda_arrays import CudaArray, contiguous_strides, empty, layout_of, of_layout, operations
from dynograd.cuda import driver

_float64 = numpy.dtype(numpy.float64)


class Window(NamedTuple):
    """How output places read the input in three dims; see `convolutions_triton`."""

    out: tuple[int, ...]
    size: tuple[int, ...]
    taps: tuple[int, ...]
    base: tuple[int, ...]
    scale: tuple[int, ...]
    step: tuple[int, ...]


def three(numbers, missing):
    return (*(missing,) * (3 - len(numbers)), *numbers)


def numbers_of(window):
    return [number for part in window for number in part]


def five_dims(array):
    """A view with three spatial dims."""
    return array if array.ndim == 5 else array[(slice(None), slice(None), *(None,) * (5 - array.ndim))]


def place_steps(array):
    """Strides of images and places in elements, of five dims."""
    return [step // array.itemsize for step in (array.strides[0], *array.strides[2:])]


def moved(array):
    """A view with channels last."""
    return array.transpose(0, *range(2, array.ndim), 1)


def is_channels_last(array):
    """Whether memory holds the channels of a place side by side, and is not row-major as well."""
    if array.ndim < 4 or array.is_contiguous:
        return False
    return moved(array).is_contiguous


def has_channels_last(array):
    """Whether the channels of a place lie side by side."""
    size = array.itemsize
    return (array.strides[1] == size or array.shape[1] == 1) and not any([step % size for step in array.strides])


def channels_last(array):
    """The array, or a copy, so that the channels of a place lie side by side."""
    if has_channels_last(array):
        return array
    copy = of_layout(layout_like(array.shape, array, True))
    operations.copy_into(copy, array)
    return copy


def layout_like(shape, like, last):
    """The layout of a new array, row-major or channels-last."""
    kind, index = like.dtype, like.device_index
    if not last:
        return layout_of(shape, contiguous_strides(shape, kind.itemsize), kind, index)
    steps = contiguous_strides((shape[0], *shape[2:], shape[1]), kind.itemsize)
    return layout_of(shape, (steps[0], steps[-1], *steps[1:-1]), kind, index)


def unit_of(array, channels):
    """Elements of 16 bytes, where so many divide a group's channels and all strides; else 1."""
    unit = 16 // array.itemsize
    steps = [step for place, step in enumerate(array.strides) if place != 1 and array.shape[place] > 1]
    return 1 if array.pointer % 16 or channels % unit or any([step % 16 for step in steps]) else unit


def power(number, most):
    """The power of two from 16 to `most` that holds `number`."""
    return min(most, max(16, 1 << (max(number, 1) - 1).bit_length()))


def processors(array: CudaArray) -> int:
    return driver.get("convolution").attribute(array.device_index, "multiprocessor_count")


def of_other_kinds(function: Any, first: CudaArray, second: CudaArray, bias: Any) -> CudaArray:
    """A bilinear function of integers by float64 (exact up to 2**53), of complex numbers by their parts."""
    if first.dtype.kind == "c":
        a, b, c, d = first.real.copy(), first.imag.copy(), second.real.copy(), second.imag.copy()
        real, imaginary = function(a, c) - function(b, d), function(a, d) + function(b, c)
        out = empty(real.shape, first.dtype, first.device_index)
        operations.copy_into(out.real, real)
        operations.copy_into(out.imag, imaginary)
    else:
        out = function(first.astype(_float64), second.astype(_float64)).astype(first.dtype)
    return out if bias is None else out + bias.reshape(-1, *(1,) * (out.ndim - 2))
