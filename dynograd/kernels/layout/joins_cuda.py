"""Joining CudaArrays: small row-major ones eight at a time by one kernel, large and strided ones each by its own copy."""

from __future__ import annotations

from math import prod

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.layout import joins_triton as kernels
from dynograd.kernels.layout.copies_cuda import units

# From here on the copy of one array takes longer than a launch.
_LARGE = 1 << 22


def cat(arrays: list[CudaArray], dim: int) -> CudaArray:
    """Arrays one after the other along `dim`; they agree in dtype."""
    first = arrays[0]
    place = dim + first.ndim if dim < 0 else dim
    for array in arrays[1:]:
        if (
            array.ndim != first.ndim
            or array.shape[:place] != first.shape[:place]
            or array.shape[place + 1 :] != first.shape[place + 1 :]
        ):
            raise ValueError(
                f"cat: all the input array dimensions except dim {place} must match exactly, got {first.shape} and {array.shape}."
            )
    total = sum([array.shape[place] for array in arrays])
    out = cuda_arrays.empty((*first.shape[:place], total, *first.shape[place + 1 :]), first.dtype, first.device_index)
    lead, start = (slice(None),) * place, 0
    together: list[tuple[CudaArray, int]] = []
    for array in arrays:
        if array.size and array.dtype == out.dtype:
            if array.nbytes < _LARGE and array.is_contiguous:
                together.append((array, start))
            else:
                operations.copy_into(out[(*lead, slice(start, start + array.shape[place]))], array)
        elif array.size:
            operations.copy_into(out[(*lead, slice(start, start + array.shape[place]))], array)
        start += array.shape[place]
    for begin in range(0, len(together), 8):
        _join(out, together[begin : begin + 8], place)
    return out


def _join(out: CudaArray, parts: list[tuple[CudaArray, int]], dim: int) -> None:
    arrays = [array for array, _ in parts]
    slice_bytes = prod(out.shape[dim + 1 :]) * out.itemsize
    step, vector, vectors = units(slice_bytes, out, *arrays)
    step *= vector
    target, sources = vectors[0], vectors[1:]
    widths = [array.shape[dim] * step for array in arrays]
    starts = [start * step for _, start in parts]
    missing = 8 - len(parts)
    rows, widest = prod(out.shape[:dim]), max(widths)
    columns = min(1024, 1 << max(widest - 1, 0).bit_length())
    together, tiles = 1024 // columns, -(-widest // columns)
    grid = (len(parts) * tiles * -(-rows // together),)
    kernels.join(
        grid, target, *sources, *sources[:1] * missing, *widths, *[0] * missing, *starts, *[0] * missing, len(parts), tiles, rows,
        out.shape[dim] * step, ROWS=together, COLS=columns,
    )  # fmt: skip


def stack(arrays: list[CudaArray], dim: int) -> CudaArray:
    """Arrays of one shape beside each other along a new dim."""
    shape = arrays[0].shape
    place = dim + len(shape) + 1 if dim < 0 else dim
    widened = (*shape[:place], 1, *shape[place:])
    return cat([array.reshape(widened) for array in arrays], place)
