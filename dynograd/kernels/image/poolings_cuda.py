"""Maximum and average pooling over 1, 2 or 3 spatial dimensions, with given or adaptive windows, on CudaArrays.

The conventions are those of `poolings_cpu`. Where the windows begin and end is computed on the host and kept on the device.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy
import triton.language as tl

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.image import poolings_cpu as cpu
from dynograd.kernels.image import poolings_triton as kernels
from dynograd.kernels.image.poolings_cpu import pooled_size
from dynograd.kernels.index.scatters_cuda import _add_along, _write
from dynograd.kernels.layout.copies_cuda import contiguous, is_big, sum_dtype, zeros

__all__ = [
    "adaptive_avg_pool_backward",
    "adaptive_avg_pool_forward",
    "adaptive_max_pool_forward",
    "avg_pool_backward",
    "avg_pool_forward",
    "max_pool_backward",
    "max_pool_forward",
    "max_pool_places",
    "max_unpool_forward",
    "pooled_size",
]

_INT64 = numpy.dtype(numpy.int64)
_BLOCK = 256  # places of a program, 2 for each thread of Triton's 4 warps
_NARROW = 128  # backward needs so many registers that 256 spill on sm_80


def max_pool_forward(x: CudaArray, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    """(largest value of each window, its int64 index)."""
    return _largest(x, kernel, stride, padding, dilation, ceil_mode, True)


def max_pool_places(x: CudaArray, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    """(largest value of each window, its place as int32 where that will do), for channels-last images both in that order of memory."""
    return _largest(x, kernel, stride, padding, dilation, ceil_mode, False)


def _largest(x: CudaArray, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, wide: bool) -> Any:
    spatial = len(kernel)
    sizes, lead = x.shape[-spatial:], x.shape[:-spatial]
    counts, _, _, three, windows, kind = cpu._max_windows(sizes, kernel, stride, padding, dilation, ceil_mode)
    last = spatial == 2 and _is_channels_last(x)
    if last:  # its channels are read side by side as the last dim of windows of size 1
        (height, width), channels = sizes, x.shape[1]
        shape = (x.shape[0], *counts, channels)
        values = cuda_arrays.empty(shape, x.dtype, x.device_index)
        places = cuda_arrays.empty(shape, _INT64, x.device_index)
        if values.size:
            space = (height, width, channels, *counts, channels)
            shape_of_windows = (*kernel, 1, *stride, 1, *padding, 0, *dilation, 1)
            _launch(x, values, places, (x.size // len(x), width * channels, channels, 1), space, shape_of_windows)
        places = operations.elementwise("floor_divide", places, channels)
        back = [value.transpose((0, 3, 1, 2)) for value in (values, places if wide else places.astype(kind))]
        return back[0], back[1]
    x = contiguous(x)
    values = cuda_arrays.empty((*lead, *counts), x.dtype, x.device_index)
    places = cuda_arrays.empty(values.shape, _INT64 if wide else kind, x.device_index)
    if values.size:
        volume, area = prod(three[:3]), three[1] * three[2]
        _launch(x, values, places, (volume, area, three[2], 1), three, windows)
    return values, places


def _launch(x: CudaArray, values: CudaArray, places: CudaArray, steps: Any, space: Any, windows: Any) -> None:
    grid = (-(-values.size // _BLOCK),)
    kernels.largest_in_windows(
        grid,
        x,
        values,
        places,
        *steps,
        *space,
        *windows,
        values.size,
        **_kind(x.dtype),
        BIG=is_big(values.size),
        BLOCK=_BLOCK,
    )


def _kind(dtype: Any) -> dict[str, Any]:
    floating = dtype.kind not in "iu"
    wide = tl.float64 if dtype.itemsize == 8 else tl.float32
    lowest = float("-inf") if floating else int(numpy.iinfo(dtype).min)
    return {"ACC": wide if floating else tl.int64, "LOWEST": lowest}


def adaptive_max_pool_forward(x: CudaArray, output_size: Any) -> tuple[CudaArray, CudaArray]:
    """(largest value of each of `output_size` windows, its int64 index)."""
    spatial = len(output_size)
    sizes = x.shape[-spatial:]
    x = contiguous(x)
    values = cuda_arrays.empty((*x.shape[:-spatial], *output_size), x.dtype, x.device_index)
    places = cuda_arrays.empty(values.shape, _INT64, x.device_index)
    if values.size:
        starts, stops, *_ = _on_device("_adaptive_joined", x.device_index, sizes, tuple(output_size))
        space = (*_three(sizes), *_three(output_size))
        grid = (-(-values.size // _BLOCK),)
        kernels.largest_in_ranges(
            grid,
            x,
            starts,
            stops,
            values,
            places,
            *space,
            values.size,
            **_kind(x.dtype),
            BIG=is_big(values.size),
            BLOCK=_BLOCK,
        )
    return values, places


def max_pool_backward(g: CudaArray, indices: CudaArray, input_shape: Any, spatial_dims: int) -> CudaArray:
    """Gradient of the input of any maximum pooling over the last `spatial_dims`: each window's at its index.

    Where windows overlap, atomics add in any order, or in theirs with deterministic algorithms.
    """
    planes, size = prod(input_shape[:-spatial_dims]), prod(input_shape[-spatial_dims:])
    out = zeros(input_shape, sum_dtype(g.dtype), g.device_index)
    if g.size:
        flat = (planes, g.size // planes)
        operands, places = contiguous(g).reshape(flat), contiguous(indices).reshape(flat)
        _add_along(out.reshape((planes, size)), 1, places, operands, "max_pool_backward")
    return out.astype(g.dtype, copy=False)


def max_unpool_forward(x: CudaArray, indices: CudaArray, output_size: Any) -> CudaArray:
    """Values put at their indices in spatial dimensions of `output_size`, zero elsewhere."""
    leading = x.shape[: x.ndim - len(output_size)]
    planes = prod(leading)
    out = zeros((planes, prod(output_size)), x.dtype, x.device_index)
    if x.size:
        flat = (planes, x.size // planes)
        _write(out, 1, contiguous(indices).reshape(flat), contiguous(x).reshape(flat))
    return out.reshape((*leading, *output_size))


def avg_pool_forward(
    x: CudaArray,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> CudaArray:
    """Mean of each window: its sum over the places inside padding (or inside the input only), or over the given divisor."""
    windows = x.shape[-len(kernel) :], kernel, stride, padding, ceil_mode, count_include_pad
    return _averages(x, "_average_windows", windows, divisor_override)


def avg_pool_backward(
    g: CudaArray, input_shape: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> CudaArray:  # fmt: skip
    """Gradient of the input of `avg_pool_forward`."""
    windows = tuple(input_shape[-len(kernel) :]), kernel, stride, padding, ceil_mode, count_include_pad
    return _averages_backward(g, input_shape, "_average_windows", windows, divisor_override)


def adaptive_avg_pool_forward(x: CudaArray, output_size: Any) -> CudaArray:
    """Mean of each of `output_size` windows; window i covers floor(i * size / count) to ceil((i + 1) * size / count)."""
    dims = tuple(range(x.ndim - len(output_size), x.ndim))
    if set(output_size) == {1} and x.size:
        return x.mean(dims, True)
    return _averages(x, "_adaptive_joined", (x.shape[-len(output_size) :], tuple(output_size)), None)


def adaptive_avg_pool_backward(g: CudaArray, input_shape: Any, output_size: Any) -> CudaArray:
    """Gradient of the input of `adaptive_avg_pool_forward`."""
    sizes = tuple(input_shape[-len(output_size) :])
    if set(output_size) == {1} and g.size and prod(sizes):
        return contiguous((g / prod(sizes)).astype(g.dtype, copy=False).broadcast_to(tuple(input_shape)))
    return _averages_backward(g, input_shape, "_adaptive_joined", (sizes, tuple(output_size)), None)


def _averages(x: CudaArray, rule: str, windows: Any, divisor: int | None) -> CudaArray:
    starts, stops, sizes, counts, *_ = _on_device(rule, x.device_index, *windows)
    out = cuda_arrays.empty((*x.shape[: x.ndim - len(counts)], *counts), x.dtype, x.device_index)
    if out.size:
        space = (*_three(windows[0]), *_three(counts))
        grid = (-(-out.size // _BLOCK),)
        kernels.average_windows(
            grid,
            contiguous(x),
            starts,
            stops,
            sizes,
            out,
            divisor or 0,
            *space,
            out.size,
            ACC=_wide(x.dtype),
            BIG=is_big(out.size),
            BLOCK=_BLOCK,
        )
    return out


def _averages_backward(g: CudaArray, input_shape: Any, rule: str, windows: Any, divisor: int | None) -> CudaArray:
    if not g.size:
        return zeros(input_shape, g.dtype, g.device_index)
    _, _, sizes, counts, firsts, lasts = _on_device(rule, g.device_index, *windows)
    out = cuda_arrays.empty(tuple(input_shape), g.dtype, g.device_index)
    if out.size:
        space = (*_three(windows[0]), *_three(counts))
        grid = (-(-out.size // _NARROW),)
        kernels.average_windows_backward(
            grid,
            contiguous(g),
            firsts,
            lasts,
            sizes,
            out,
            divisor or 0,
            *space,
            out.size,
            ACC=_wide(g.dtype),
            BIG=is_big(out.size),
            BLOCK=_NARROW,
        )
    return out


def _wide(dtype: Any) -> Any:
    return tl.float64 if dtype.itemsize == 8 else tl.float32


@lru_cache(maxsize=256)
def _on_device(rule: str, device: int, *windows: Any) -> tuple[Any, ...]:
    """(starts, stops, places counted, how many windows each dim has, first window at each place, the one after the last)."""
    starts, stops, sizes, counts, three = getattr(cpu, rule)(*windows)
    firsts, lasts, begin = [], [], 0
    for size, count in zip(_three(windows[0]), three, strict=True):
        place = numpy.arange(size)
        firsts.append(numpy.searchsorted(stops[begin : begin + count], place, "right"))
        lasts.append(numpy.searchsorted(starts[begin : begin + count], place, "right"))
        begin += count
    tables = starts, stops, sizes, numpy.concatenate(firsts), numpy.concatenate(lasts)
    first, second, third, *back = [cuda_arrays.from_numpy(table.astype(numpy.int32), device) for table in tables]
    return first, second, third, counts, *back


def _three(values: Any) -> tuple[int, ...]:
    """The values of one, two or three dimensions as three."""
    return (1,) * (3 - len(values)) + tuple([int(value) for value in values])


def _is_channels_last(x: CudaArray) -> bool:
    return x.ndim == 4 and not x.is_contiguous and x.transpose((0, 2, 3, 1)).is_contiguous
