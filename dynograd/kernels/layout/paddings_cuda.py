"""Borders around the last dims of CudaArrays, in one pass, and the sums that undo them.

`sides` has a (before, after) pair for each dim of the array, from the first. Half types are summed in float32.
"""

from __future__ import annotations

from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.layout import paddings_triton as kernels
from dynograd.kernels.layout.copies_cuda import bits, contiguous, copied, full, is_big, is_half

_MODES = {"constant": 0, "reflect": 1, "replicate": 2, "circular": 3}


def pad_constant(x: CudaArray, sides: Any, value: Any) -> CudaArray:
    """x with `value` around it; negative sides cut off instead."""
    return _padded(x, sides, "constant", value)


def pad_mirrored(x: CudaArray, sides: Any, mode: str) -> CudaArray:
    """x with borders that repeat it: "reflect" (without the edge), "replicate" (the edge) or "circular"."""
    return _padded(x, sides, mode, 0)


def _padded(x: CudaArray, sides: Any, mode: str, value: Any) -> CudaArray:
    if not any([before or after for before, after in sides]):
        return copied(x)
    shape = tuple([size + before + after for size, (before, after) in zip(x.shape, sides, strict=True)])
    dims = _merged(x, shape, sides) if x.itemsize < 16 else None
    if dims is None or not x.size:
        return _by_copies(x, shape, sides, mode, value)
    out = cuda_arrays.empty(shape, x.dtype, x.device_index)
    if out.size:
        dims = [(1, 1, 0, 0)] * (4 - len(dims)) + dims
        n, m, before, strides = zip(*dims, strict=True)
        border = full((1,), value, x.dtype, x.device_index)
        kernels.pad(
            (-(-out.size // 1024),),
            bits(x),
            bits(border),
            bits(out),
            *n[1:],
            *m,
            *before,
            *strides,
            out.size,
            MODE=_MODES[mode],
            BIG=is_big(out.size),
            BLOCK=1024,
        )
    return out


def _merged(x: CudaArray, shape: tuple[int, ...], sides: Any) -> list[tuple[int, int, int, int]] | None:
    """(size in the result, size, places before, stride in elements) of as few dims as will do; None for more than four."""
    dims: list[tuple[int, int, int, int]] = []
    for n, m, (before, _), stride in zip(shape, x.shape, sides, x.strides, strict=True):
        step = stride // x.itemsize
        if n == m == 1 and not before:
            continue
        if (
            dims
            and n == m
            and not before
            and dims[-1][0] == dims[-1][1]
            and dims[-1][2] == 0
            and dims[-1][3] == step * m
        ):
            dims[-1] = (dims[-1][0] * n, dims[-1][1] * m, 0, step)
        else:
            dims.append((n, m, before, step))
    return (dims or [(1, 1, 0, 0)]) if len(dims) <= 4 else None


def _by_copies(x: CudaArray, shape: tuple[int, ...], sides: Any, mode: str, value: Any) -> CudaArray:
    """The same for arrays of many padded dims, a dim at a time."""
    out = x
    for dim, (before, after) in enumerate(sides):
        if before or after:
            widths = [(before, after) if dim == other else (0, 0) for other in range(x.ndim)]
            out = _one_dim(out, dim, widths, mode, value)
    return copied(out) if out.storage is x.storage else out


def _one_dim(x: CudaArray, dim: int, sides: Any, mode: str, value: Any) -> CudaArray:
    before, after = sides[dim]
    shape = (*x.shape[:dim], x.shape[dim] + before + after, *x.shape[dim + 1 :])
    out = full(shape, value, x.dtype, x.device_index)
    if not out.size or not x.size:
        return out
    if mode == "constant":
        cut = slice(max(0, -before), x.shape[dim] - max(0, -after))
        stands = slice(max(0, before), max(0, before) + cut.stop - cut.start)
        lead = (slice(None),) * dim
        operations.copy_into(out[(*lead, stands)], x[(*lead, cut)])
        return out
    from dynograd.kernels.index.scatters_cuda import take

    place = numpy.arange(-before, x.shape[dim] + after)
    size = x.shape[dim]
    if mode == "reflect":
        place = size - 1 - numpy.abs(size - 1 - numpy.abs(place))
    elif mode == "replicate":
        place = numpy.clip(place, 0, size - 1)
    else:
        place %= size
    return take(x, cuda_arrays.from_numpy(place, x.device_index), dim, "")


def pad_mirrored_backward(g: CudaArray, sides: Any, mode: str) -> CudaArray:
    """The transpose of `pad_mirrored`: what the borders got is added where they were read from."""
    kind = g.dtype
    g = g.astype(numpy.float32) if is_half(kind) else g
    for dim, (before, after) in enumerate(sides):
        if before or after:
            g = _folded(g, dim, before, after, mode)
    return contiguous(g).astype(kind, copy=False)


def _folded(g: CudaArray, dim: int, before: int, after: int, mode: str) -> CudaArray:
    """The inner part of `g` along `dim` with its borders added in."""
    lead, size = (slice(None),) * dim, g.shape[dim] - before - after

    def part(array: CudaArray, start: Any, stop: Any, step: Any = None) -> CudaArray:
        return array[(*lead, slice(start, stop, step))]

    def add(into: CudaArray, value: CudaArray) -> None:
        if value.size:
            operations.copy_into(into, into + value)

    inner = copied(part(g, before, before + size))
    first, last = part(g, None, before), part(g, before + size, None)
    if mode == "reflect":
        add(part(inner, 1, before + 1), part(first, None, None, -1))
        add(part(inner, size - 1 - after, size - 1), part(last, None, None, -1))
    elif mode == "replicate":
        for border, place in ((first, 0), (last, size - 1)):
            if border.shape[dim]:
                add(part(inner, place, place + 1), border.sum((dim,), True))
    else:
        add(part(inner, size - before, size), first)
        add(part(inner, 0, after), last)
    return inner
