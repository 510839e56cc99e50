"""Reading, writing and adding at an index, on CudaArrays; what a basic and an advanced index are says `indexing_cpu`.

Every advanced index becomes one vector of places: a mask the places where it is True in the dims that it covers, taken together,
several index arrays their joint row-major places. Index arrays with kept dims between them go to the front, as in NumPy.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray, operations
from dynograd.kernels.build import faults_cuda as faults
from dynograd.kernels.index.scatters_cuda import add_slices, joined_places, kernels, take, true_places, write_slices
from dynograd.kernels.layout.copies_cuda import contiguous, full, sum_dtype, zeros

_INT64 = numpy.dtype(numpy.int64)
_FULL = slice(None)


def basic_fill(g: CudaArray, shape: tuple[int, ...], index: tuple) -> CudaArray:
    """Zeros of `shape` that hold `g` at the basic `index`."""
    result = zeros(shape, g.dtype, g.device_index)
    result[index] = g
    return result


def basic_put(x: CudaArray, value: Any, index: tuple) -> CudaArray:
    """A copy of `x` that holds `value` at the basic `index`."""
    result = x.copy()
    result[index] = value
    return result


def index_forward(x: CudaArray, indices: list, template: tuple) -> CudaArray:
    """x at the advanced index, a new array."""
    places = _Places(x.shape, indices, template, x.device_index)
    picked = take(places.arranged(x), places.vector, places.dim)
    _raise_at_once(x)
    return picked.reshape(places.result)


def index_backward(g: CudaArray, indices: list, template: tuple, shape: tuple[int, ...]) -> CudaArray:
    """Zeros of `shape` with `g` added at the advanced index; elements named several times get the sum."""
    places = _Places(shape, indices, template, g.device_index)
    result = zeros(places.moved, sum_dtype(g.dtype), g.device_index)
    add_slices(result, places.dim, places.vector, g.reshape(places.lines(g.shape)), "index")
    return places.restored(result).astype(g.dtype, copy=False)


def index_put_forward(x: CudaArray, values: Any, indices: list, template: tuple, accumulate: bool) -> CudaArray:
    """A copy of `x` with `values` written (or added) at the advanced index.

    Of several writes to a place one stays: the last with deterministic algorithms, otherwise any.
    """
    values = _as_array(values, x)
    masked = None if accumulate else _masked(x, values, indices, template)
    if masked is not None:
        return masked
    places = _Places(x.shape, indices, template, x.device_index)
    result = _copied(places.arranged(x), x, sum_dtype(x.dtype) if accumulate else x.dtype)
    places.put(result, values, accumulate)
    return places.restored(result).astype(x.dtype, copy=False)


def index_assign(array: CudaArray, ready: Any, value: Any) -> None:
    """Writes `value` into `array` at an advanced index: any index, or what `ops.indexing.normalize_index` made of one."""
    basic, indices, template = ready if hasattr(ready, "template") else _parsed(array, ready)
    target = array if basic is None else array[basic]
    value = _as_array(value, target)
    if not indices:
        operations.copy_into(target, value)
        return
    masked = _masked(target, value, indices, template)
    if masked is not None:
        operations.copy_into(target, masked)
        return
    places = _Places(target.shape, indices, template, target.device_index)
    arranged = places.arranged(target)
    places.put(arranged, value, False)
    if arranged.storage is not target.storage:
        operations.copy_into(target, places.restored(arranged))


def index(array: CudaArray, index: Any) -> CudaArray:
    """array[index] for any index; ints and slices select first, then index arrays, lists and masks pick a copy."""
    basic, indices, template = _parsed(array, index)
    picked = array if basic is None else array[basic]
    return index_forward(picked, indices, template) if indices else picked


def result_shape(shape: tuple[int, ...], indices: list, template: tuple) -> tuple[int, ...]:
    """The shape of what an advanced index picks."""
    device = next(index.device_index for index in indices if isinstance(index, CudaArray))
    return _Places(shape, indices, template, device).result


def count_true(mask: CudaArray) -> int:
    """How many elements are True. Waits for the device."""
    return true_places(mask).size


def out_of_range(index: CudaArray, low: int, high: int, who: str = "", fused: bool = False) -> Any:
    """None: what is outside low <= index < high is found by kernels and reported later (see `faults_cuda`).

    `fused`: the kernel that uses the index will look itself. With DYNOGRAD_CUDA_SYNC=1, as on the CPU: (value, position) of the
    first element outside, or None.
    """
    if not index.size:
        return None
    if faults.immediate():
        from dynograd.kernels.index import indexing_cpu

        return indexing_cpu.out_of_range(index.numpy(), low, high)
    if fused:
        faults.announce(who or "index", low, high)
        return None
    number = faults.site(who or "index", index, low, high)
    flat = contiguous(index)
    grid = (-(-flat.size // 1024),)
    kernels.check_range(grid, flat, faults.word(index.device_index), number, low, high, flat.size, BLOCK=1024)
    return None


def _raise_at_once(x: CudaArray) -> None:
    if faults.immediate():
        from dynograd.cuda import driver, streams

        driver.get("index").synchronize_stream(x.device_index, streams.current_handle(x.device_index))
        faults.check(x.device_index)


# --- what an index means ---------------------------------------------------------------------------------------------------


class _Places:
    """An advanced index into an array of `shape` as one vector along the dim `dim` of the array of shape `moved`.

    `moved` has the dims that index arrays stand for joined into one, in front when there are kept dims between them.
    """

    def __init__(self, shape: tuple[int, ...], indices: list, template: tuple, device: int) -> None:
        dims: list[int] = []  # of the array, with the dims under a mask taken together
        arrays: list[CudaArray] = []
        stands: list[int] = []
        taken = 0
        for entry in template:
            if type(entry) is int:
                index = indices[entry]
                index = index if isinstance(index, CudaArray) else cuda_arrays.from_numpy(numpy.asarray(index), device)
                depth = index.ndim if index.dtype.kind == "b" else 1
                stands.append(len(dims))
                dims.append(prod(shape[taken : taken + depth]))
                taken += depth
                arrays.append(true_places(index) if index.dtype.kind == "b" else index)
            else:
                dims.append(shape[taken])
                taken += 1
        dims += shape[taken:]
        self.shape, self.dims = tuple(shape), tuple(dims)
        self.turned = stands[-1] - stands[0] + 1 != len(stands)
        order = (
            [*stands, *[dim for dim in range(len(dims)) if dim not in stands]]
            if self.turned
            else list(range(len(dims)))
        )
        self.order = tuple(order)
        self.dim = 0 if self.turned else stands[0]
        sizes = [self.dims[dim] for dim in stands]
        self.split = tuple([self.dims[dim] for dim in order])
        lead, tail = self.split[: self.dim], self.split[self.dim + len(stands) :]
        self.moved = (*lead, prod(sizes), *tail)
        common = numpy.broadcast_shapes(*[array.shape for array in arrays])
        if len(arrays) == 1:
            self.vector = contiguous(arrays[0]).reshape(-1)
        else:
            spread = [contiguous(array.broadcast_to(common), _INT64) for array in arrays]
            self.vector = joined_places(spread, tuple(sizes)).reshape(-1)
        self.result = (*lead, *common, *tail)

    def arranged(self, x: CudaArray) -> CudaArray:
        """`x` in the shape `moved`, row by row: a view where that is possible."""
        return contiguous(contiguous(x).reshape(self.dims).transpose(self.order)).reshape(self.moved)

    def restored(self, x: CudaArray) -> CudaArray:
        """What `arranged` was made from."""
        back = x.reshape(self.split)
        if self.turned:
            order = [self.order.index(dim) for dim in range(len(self.order))]
            back = contiguous(back.transpose(tuple(order)))
        return back.reshape(self.shape)

    def lines(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the indexed result with the dims of the index as one."""
        return (*self.moved[: self.dim], self.vector.size, *self.moved[self.dim + 1 :])

    def put(self, result: CudaArray, values: CudaArray, accumulate: bool) -> None:
        """Writes or adds `values` (broadcast) at the index into `result`, which is arranged."""
        values = _spread(values, self.result)
        if accumulate:
            add_slices(result, self.dim, self.vector, contiguous(values).reshape(self.lines(values.shape)), "index_put")
        elif values.size == 1 or not any(values.strides):
            element = values.as_strided((1,), (values.itemsize,)) if values.size else values
            write_slices(result, self.dim, self.vector, element, "index_put")
        else:
            write_slices(
                result, self.dim, self.vector, contiguous(values).reshape(self.lines(values.shape)), "index_put"
            )


def _spread(values: CudaArray, shape: tuple[int, ...]) -> CudaArray:
    """`values` stretched to `shape`; leading dims of size 1 that are too many are dropped."""
    while values.ndim > len(shape) and values.shape[0] == 1:
        values = values.reshape(values.shape[1:])
    if numpy.broadcast_shapes(values.shape, shape) != tuple(shape):
        raise ValueError(f"shape {values.shape} cannot be broadcast to {shape}")
    return values.broadcast_to(tuple(shape))


def _masked(x: CudaArray, values: CudaArray, indices: list, template: tuple) -> CudaArray | None:
    """x with one value where its only index, a mask, is True: without waiting for how many there are."""
    if len(indices) != 1 or len(template) != 1 or values.size != 1:
        return None
    mask = indices[0]
    if not isinstance(mask, CudaArray) or mask.dtype.kind != "b" or mask.shape != x.shape[: mask.ndim]:
        return None
    wide = mask.reshape((*mask.shape, *(1,) * (x.ndim - mask.ndim)))
    return operations.elementwise("where", wide, values.reshape(()).astype(x.dtype), x)


def _as_array(values: Any, like: CudaArray) -> CudaArray:
    """Numbers and CPU arrays on the device of `like`, in its dtype."""
    if isinstance(values, CudaArray):
        return values.astype(like.dtype, copy=False)
    if numpy.ndim(values) == 0:
        return full((), numpy.asarray(values).item(), like.dtype, like.device_index)
    return cuda_arrays.from_numpy(numpy.asarray(values, like.dtype), like.device_index)


def _copied(arranged: CudaArray, x: CudaArray, dtype: Any) -> CudaArray:
    """`arranged` in memory of its own."""
    if arranged.dtype != dtype:
        return arranged.astype(dtype)
    return arranged.copy() if arranged.storage is x.storage else arranged


def _parsed(array: CudaArray, index: Any) -> tuple[Any, list, tuple]:
    """(basic part to apply first or None, index arrays, template) of any index, whose shapes are not checked."""
    entries = list(index) if isinstance(index, tuple) else [index]
    entries = [_entry(entry, array.device_index) for entry in entries]
    used = sum(
        [
            entry.ndim
            if isinstance(entry, CudaArray) and entry.dtype.kind == "b"
            else entry is not None and entry is not Ellipsis
            for entry in entries
        ]
    )
    if used > array.ndim:
        raise IndexError(f"too many indices: array is {array.ndim}-dimensional, but {used} were indexed")
    basic: list[Any] = []
    indices: list[Any] = []
    template: list[Any] = []
    for entry in entries:
        if isinstance(entry, CudaArray):
            basic += [_FULL] * (entry.ndim if entry.dtype.kind == "b" else 1)
            template.append(len(indices))
            indices.append(entry)
        elif entry is Ellipsis:
            basic += [_FULL] * (array.ndim - used)
            template += [_FULL] * (array.ndim - used)
        else:
            basic.append(entry)
            if not isinstance(entry, int):
                template.append(_FULL)
    while template and template[-1] == _FULL:
        template.pop()
    trivial = all([isinstance(entry, slice) and entry == _FULL for entry in basic])
    return None if trivial else tuple(basic), indices, tuple(template)


def _entry(value: Any, device: int) -> Any:
    if value is None or value is Ellipsis or isinstance(value, (slice, CudaArray)):
        return value
    if isinstance(value, (int, numpy.integer)) and not isinstance(value, bool):
        return int(value)
    array = numpy.asarray(value)
    if array.dtype.kind not in "iub":
        array = array.astype(numpy.int64)
    return cuda_arrays.from_numpy(array, device)
