"""Counted and patterned new arrays on a CUDA device; `device` is a `dynograd.base.devices.device`."""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.cuda import streams
from dynograd.kernels.build.launch_arguments_cuda import Double
from dynograd.kernels.layout import creation_cpu
from dynograd.kernels.layout import creation_triton as kernels
from dynograd.kernels.layout.copies_cuda import full, zeros

_BLOCK = 1024  # elements of a program, 8 for each thread of Triton's 4 warps
_INT64 = numpy.dtype(numpy.int64)


def index_of(device: Any) -> int:
    """The number of a `device`; of the current one where it names none."""
    index = getattr(device, "index", None)
    return streams.current_device() if index is None else index


def counted_up(count: int, device: int) -> CudaArray:
    """0 to count - 1 in int64."""
    numbers = cuda_arrays.empty((count,), _INT64, device)
    kernels.count_up((-(-count // _BLOCK),), numbers, 0, 1, count, BLOCK=_BLOCK)
    return numbers


def arange(start: Any, step: Any, count: int, dtype: Any, device: Any = None) -> CudaArray:
    dtype = numpy.dtype(dtype)
    if dtype.kind in "cb":
        return cuda_arrays.from_numpy(creation_cpu.arange(start, step, count, dtype), index_of(device))
    numbers = cuda_arrays.empty((count,), dtype, index_of(device))
    grid = (-(-count // _BLOCK),)
    if isinstance(start, int) and isinstance(step, int):
        kernels.count_up(grid, numbers, start, step, count, BLOCK=_BLOCK)
    else:
        kernels.count_up_in_float64(
            grid, numbers, Double(start), Double(step), Double(0.0), count, ENDS=False, BLOCK=_BLOCK
        )
    return numbers


def linspace(start: Any, end: Any, steps: int, dtype: Any, device: Any = None) -> CudaArray:
    dtype = numpy.dtype(dtype)
    if dtype.kind in "cb" or steps < 2:
        return cuda_arrays.from_numpy(creation_cpu.linspace(start, end, steps, dtype), index_of(device))
    numbers = cuda_arrays.empty((steps,), dtype, index_of(device))
    if dtype.char == "f":
        start, end = numpy.float32(start), numpy.float32(end)
        step = Double(float((end - start) / numpy.float32(steps - 1)))
    else:
        step = Double((float(end) - float(start)) / (steps - 1))
    grid = (-(-steps // _BLOCK),)
    kernels.count_up_in_float64(
        grid, numbers, Double(float(start)), step, Double(float(end)), steps, ENDS=True, BLOCK=_BLOCK
    )
    return numbers


def eye(rows: int, columns: int, dtype: Any, device: Any = None) -> CudaArray:
    matrix = zeros((rows, columns), dtype, index_of(device))
    count = min(rows, columns)
    if count:
        item = matrix.itemsize
        diagonal = matrix.as_strided((count,), ((columns + 1) * item,))
        diagonal[...] = full((), 1, matrix.dtype, matrix.device_index)
    return matrix


def orthogonal(matrix: CudaArray) -> CudaArray:
    """The orthogonal factor of `matrix`, with the sign that makes it uniformly distributed. Computed on the CPU."""
    return cuda_arrays.from_numpy(creation_cpu.orthogonal(matrix.numpy()), matrix.device_index)
