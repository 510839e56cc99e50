"""CudaArray: memory on a CUDA device with shape, strides and dtype; NumPy's array as far as ops, autograd and Tensor ask for it.

Views are made here. What needs a kernel (copies between layouts, casts, arithmetic) is asked of `operations`, which the layer
above puts in its slot. dtypes are NumPy's, bfloat16 is ml_dtypes'; strides are in bytes, as NumPy's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.base import dtypes
from dynograd.base.devices import device as device_type
from dynograd.cuda import allocator, copies, pinned, streams
from dynograd.errors import DeviceError

__all__ = ["CudaArray", "empty", "from_numpy", "operations"]

_devices: dict[int, device_type] = {}
ndarray = numpy.ndarray


class _Operations:
    """The slot for what is computed by kernels; its attributes are loaded when first used."""

    def __getattr__(self, name: str) -> Any:
        module = _loader[0]()
        operation = getattr(module, name)
        setattr(self, name, operation)
        return operation


operations = _Operations()
_loader: list[Any] = [None]


class HostReadError(TypeError):
    """A function of the CPU was given an array of a GPU."""


class Layout:
    """Shape, strides, dtype and device; one object for all arrays that agree in them (`layout_of`)."""

    __slots__ = (
        "derived",
        "device",
        "dtype",
        "is_contiguous",
        "itemsize",
        "nbytes",
        "ndim",
        "shape",
        "size",
        "strides",
    )

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, device: int) -> None:
        self.shape, self.strides, self.dtype, self.device = shape, strides, dtype, device
        self.ndim, self.size, self.itemsize = len(shape), math.prod(shape), dtype.itemsize
        self.nbytes = self.size * self.itemsize
        self.is_contiguous = _is_row_major(self)
        self.derived: dict[Any, Any] = {}  # layouts of views: by the new shape, by ("transposed", axes)


_layouts: dict[Any, Layout] = {}


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, device: int) -> Layout:
    """The layout of these; dtypes are equal by their number, so that each is one object."""
    key = (shape, strides, dtype.num, device)
    layout = _layouts.get(key)
    if layout is None:
        if len(_layouts) > 20000:
            _layouts.clear()
        kind = dtypes.BY_NUM[dtype.num].numpy if dtype.num in dtypes.BY_NUM else dtype
        layout = _layouts[key] = Layout(shape, strides, kind, device)
    return layout


def _part_of_layout(name: str) -> Any:
    return property(operator.attrgetter(f"layout.{name}"))


class CudaArray:
    """An array in the memory of a CUDA device. `storage` owns the memory, `pointer` is the first element's address."""

    __slots__ = ("__weakref__", "layout", "pointer", "storage")
    __array_priority__ = 900

    def __init__(
        self, storage: Any, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any
    ) -> None:
        self.storage, self.pointer, self.layout = storage, pointer, layout_of(shape, strides, dtype, storage.device)

    # --- what it is -----------------------------------------------------------------------------------------------------

    shape: tuple[int, ...] = _part_of_layout("shape")
    strides: tuple[int, ...] = _part_of_layout("strides")
    dtype: Any = _part_of_layout("dtype")
    size: int = _part_of_layout("size")
    ndim: int = _part_of_layout("ndim")
    itemsize: int = _part_of_layout("itemsize")
    nbytes: int = _part_of_layout("nbytes")
    is_contiguous: bool = _part_of_layout("is_contiguous")

    @property
    def device_index(self) -> int:
        return self.storage.device

    @property
    def device(self) -> device_type:
        index = self.storage.device
        device = _devices.get(index)
        if device is None:
            device = _devices[index] = device_type("cuda", index)
        return device

    @property
    def base(self) -> Any:
        return self.storage

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"CudaArray(shape={self.shape}, dtype={self.dtype}, device='{self.device}')"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": None if self.is_contiguous else self.strides,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            "stream": streams.current_handle(self.device_index) or 1,
        }

    # --- views ----------------------------------------------------------------------------------------------------------

    def _view(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> CudaArray:
        return CudaArray(self.storage, pointer, shape, strides, self.dtype)

    def reshape(self, *shape: Any) -> CudaArray:
        """A view where the strides allow it, a copy otherwise. One size may be -1."""
        if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
            (shape,) = shape
        shape = tuple(shape)
        layout = self.layout
        try:
            reshaped = layout.derived[shape]
        except KeyError:
            reshaped = layout.derived[shape] = _reshaped_layout(self, _whole_shape(shape, layout.size))
        if reshaped is None:
            return self.copy().reshape(shape)
        return self if reshaped is layout else self._with_layout(reshaped)

    def transpose(self, *axes: Any) -> CudaArray:
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            (axes,) = axes
        layout = self.layout
        key = ("transposed", axes and tuple(axes))
        transposed = layout.derived.get(key)
        if transposed is None:
            rank = layout.ndim
            order = tuple(range(rank))[::-1] if not axes else tuple([axis % rank for axis in axes])
            shape, strides = layout.shape, layout.strides
            transposed = layout.derived[key] = layout_of(
                tuple([shape[axis] for axis in order]),
                tuple([strides[axis] for axis in order]),
                layout.dtype,
                layout.device,
            )
        return self._with_layout(transposed)

    def _with_layout(self, layout: Layout) -> CudaArray:
        """A view from the same first element on."""
        view = _new(CudaArray)
        view.storage, view.pointer, view.layout = self.storage, self.pointer, layout
        return view

    @property
    def T(self) -> CudaArray:
        return self.transpose()

    def swapaxes(self, axis: int, other: int) -> CudaArray:
        axes = list(range(self.ndim))
        axes[axis], axes[other] = axes[other], axes[axis]
        return self.transpose(tuple(axes))

    def squeeze(self, axis: Any = None) -> CudaArray:
        chosen = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        dropped = {place % self.ndim for place in chosen if self.shape[place] == 1}
        kept = [place for place in range(self.ndim) if place not in dropped]
        return self._view(
            self.pointer, tuple([self.shape[place] for place in kept]), tuple([self.strides[place] for place in kept])
        )

    def ravel(self) -> CudaArray:
        return self.reshape((self.size,))

    flatten = ravel

    def broadcast_to(self, shape: tuple[int, ...]) -> CudaArray:
        """A view stretched to `shape`, with stride 0 where it repeats."""
        if shape == self.shape:
            return self
        lead = len(shape) - self.ndim
        strides = (0,) * lead + tuple(
            [
                0 if size == 1 and want != 1 else stride
                for size, want, stride in zip(self.shape, shape[lead:], self.strides, strict=True)
            ]
        )
        return self._view(self.pointer, tuple(shape), strides)

    def as_strided(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> CudaArray:
        """A view with the given strides and offset in bytes."""
        return self._view(self.pointer + offset, tuple(shape), tuple(strides))

    def view(self, dtype: Any) -> CudaArray:
        """The same bytes as another dtype of the same size; of another size where the last dim is dense."""
        dtype = numpy.dtype(dtype)
        if dtype.itemsize == self.dtype.itemsize:
            return CudaArray(self.storage, self.pointer, self.shape, self.strides, dtype)
        if not self.shape or self.strides[-1] != self.dtype.itemsize:
            raise ValueError("view: the last dim must be contiguous where the item size changes.")
        size = self.shape[-1] * self.dtype.itemsize
        if size % dtype.itemsize:
            raise ValueError(f"view: a row of {size} bytes is no whole number of {dtype}.")
        return CudaArray(
            self.storage,
            self.pointer,
            (*self.shape[:-1], size // dtype.itemsize),
            (*self.strides[:-1], dtype.itemsize),
            dtype,
        )

    @property
    def real(self) -> CudaArray:
        return self if self.dtype.kind != "c" else self._part(0)

    @property
    def imag(self) -> CudaArray:
        return self._part(self.dtype.itemsize // 2)

    def _part(self, offset: int) -> CudaArray:
        part = numpy.dtype("float32" if self.dtype.itemsize == 8 else "float64")
        return CudaArray(self.storage, self.pointer + offset, self.shape, self.strides, part)

    def __getitem__(self, index: Any) -> CudaArray:
        """A view for ints, slices, None and `...`; arrays and lists gather (see `operations.index`)."""
        view = self._basic(index if isinstance(index, tuple) else (index,))
        return operations.index(self, index) if view is None else view

    def __setitem__(self, index: Any, value: Any) -> None:
        target = self._basic(index if isinstance(index, tuple) else (index,))
        if target is None:
            operations.index_assign(self, index, value)
        elif isinstance(value, (CudaArray, numpy.ndarray)):
            operations.copy_into(target, value)
        else:
            operations.fill(target, value)

    def _basic(self, index: tuple[Any, ...]) -> CudaArray | None:
        """The view that a basic index means; None for any other index."""
        used = sum([part is not None and part is not Ellipsis for part in index])
        if used > self.ndim:
            raise IndexError(f"too many indices: array is {self.ndim}-dimensional, but {used} were indexed")
        pointer, shape, strides, dim = self.pointer, [], [], 0
        if not any([part is Ellipsis for part in index]):
            index = (*index, Ellipsis)
        for part in index:
            if part is None:
                shape.append(1)
                strides.append(0)
            elif part is Ellipsis:
                rest = self.ndim - used
                shape += self.shape[dim : dim + rest]
                strides += self.strides[dim : dim + rest]
                dim += rest
            elif isinstance(part, slice):
                start, stop, step = part.indices(self.shape[dim])
                count = len(range(start, stop, step))
                pointer += start * self.strides[dim] if count else 0
                shape.append(count)
                strides.append(step * self.strides[dim])
                dim += 1
            elif isinstance(part, (int, numpy.integer)) and not isinstance(part, (bool, numpy.bool_)):
                size = self.shape[dim]
                if not -size <= part < size:
                    raise IndexError(f"index {part} is out of bounds for axis {dim} with size {size}")
                pointer += (int(part) + size if part < 0 else int(part)) * self.strides[dim]
                dim += 1
            else:
                return None
        return self._view(pointer, tuple(shape), tuple(strides))

    # --- copies ---------------------------------------------------------------------------------------------------------

    def copy(self, order: str = "C") -> CudaArray:
        """The same values in new memory, row by row."""
        copied = empty(self.shape, self.dtype, self.device_index)
        operations.copy_into(copied, self)
        return copied

    def astype(self, dtype: Any, copy: bool = True) -> CudaArray:
        dtype = numpy.dtype(dtype)
        if dtype == self.dtype and not copy:
            return self
        converted = empty(self.shape, dtype, self.device_index)
        operations.copy_into(converted, self)
        return converted

    def fill(self, value: Any) -> None:
        operations.fill(self, value)

    def numpy(self) -> Any:
        """The values in host memory. Waits for the device."""
        array = self if self.is_contiguous else self.copy()
        host = numpy.empty(self.shape, self.dtype)
        if self.size:
            copies.to_host(host.ctypes.data, array.pointer, host.nbytes, self.device_index)
        return host

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise HostReadError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def item(self) -> Any:
        """The only element as a Python number. Waits for the device."""
        if self.size != 1:
            raise ValueError(f"item: expected one element, got {self.size}.")
        return self.numpy().reshape(()).item()

    def tolist(self) -> Any:
        return self.numpy().tolist()

    # --- numbers --------------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return self.item().__index__()

    def sum(self, axis: Any = None, keepdims: bool = False) -> CudaArray:
        return operations.reduced("sum", self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> CudaArray:
        return operations.reduced("mean", self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> CudaArray:
        return operations.reduced("max", self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> CudaArray:
        return operations.reduced("min", self, axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> CudaArray:
        return operations.reduced("any", self, axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> CudaArray:
        return operations.reduced("all", self, axis, keepdims)

    __hash__ = object.__hash__


def _install_operators() -> None:
    """Arithmetic as NumPy's arrays have it, by `operations.elementwise(name, *operands)`."""

    def forward(name: str) -> Callable[..., Any]:
        return lambda self, other: operations.elementwise(name, self, other)

    def reflected(name: str) -> Callable[..., Any]:
        return lambda self, other: operations.elementwise(name, other, self)

    def unary(name: str) -> Callable[..., Any]:
        return lambda self: operations.elementwise(name, self)

    def into(name: str) -> Callable[..., Any]:
        def operator(self: CudaArray, other: Any) -> CudaArray:
            operations.copy_into(self, operations.elementwise(name, self, other))
            return self

        return operator

    binary = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
        "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
        "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    }  # fmt: skip
    for symbol, name in binary.items():
        setattr(CudaArray, f"__{symbol}__", forward(name))
        setattr(CudaArray, f"__r{symbol}__", reflected(name))
        setattr(CudaArray, f"__i{symbol}__", into(name))
    for symbol in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(CudaArray, f"__{symbol}__", forward(symbol))
    for symbol, name in {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}.items():
        setattr(CudaArray, f"__{symbol}__", unary(name))


_install_operators()


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides, step = [], itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    return tuple(strides[::-1])


def empty(shape: tuple[int, ...], dtype: Any, device: int) -> CudaArray:
    """A new row-major array with any contents, on the device of that index."""
    dtype = numpy.dtype(dtype)
    shape = tuple(shape)
    return of_layout(layout_of(shape, contiguous_strides(shape, dtype.itemsize), dtype, device))


def of_layout(layout: Layout) -> CudaArray:
    """A new array with any contents; the layout is row-major, or permuted row-major."""
    array = _new(CudaArray)
    array.storage = block = allocator.allocate(layout.nbytes, layout.device)
    array.pointer = block.pointer
    array.layout = layout
    return array


_new = object.__new__


def from_numpy(array: Any, device: int, non_blocking: bool = False, constant: bool = True) -> CudaArray:
    """A copy of a NumPy array on the device of that index. With `non_blocking`, pinned memory is read later: leave it as it is.

    While a CUDA graph is captured, a `constant` is kept with the graph; other values cannot be copied (a replay would want new ones).
    """
    array = numpy.ascontiguousarray(array).reshape(array.shape)
    copied = empty(array.shape, array.dtype, device)
    if copied.size:
        block = pinned.owner_of(array) if non_blocking else None
        copies.from_host(copied.pointer, array.ctypes.data, copied.nbytes, device, block, constant)
    return copied


class _NoMemory:
    """The storage of an array that only shows a layout."""

    pointer = nbytes = 0

    def __init__(self, device: int) -> None:
        self.device = device


def outline(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, device: int) -> CudaArray:
    """An array of this layout without memory, for questions that the layout answers."""
    return CudaArray(_NoMemory(device), 0, shape, strides, dtype)


def outline_of(array: CudaArray) -> CudaArray:
    """The same for an array that is there."""
    return outline(array.shape, array.strides, array.dtype, array.device_index)


def same_device(who: str, *values: Any) -> int:
    """The index of the one device that all arrays are on.

    Raises:
        DeviceError: they are on several, or one is a CPU array.
    """
    device = None
    for value in values:
        if isinstance(value, CudaArray):
            index = value.storage.device
            if device is None:
                device = index
            elif index != device:
                raise mixed_devices(who, *values)
        elif isinstance(value, numpy.ndarray):
            raise mixed_devices(who, *values)
    return device or 0


def mixed_devices(who: str, *values: Any) -> DeviceError:
    names = [
        str(value.device) if isinstance(value, CudaArray) else "cpu"
        for value in values
        if isinstance(value, (CudaArray, numpy.ndarray))
    ]
    return DeviceError(
        f"{who}: expected all tensors to be on the same device, but found at least two devices, "
        f"{' and '.join(dict.fromkeys(names))}! Move one of them, e.g. x.to('{next((n for n in names if n != 'cpu'), 'cpu')}')."
    )


def may_overlap(array: Any, other: Any) -> bool:
    """Whether the two could share an element: bounds of their memory intersect."""
    if not (type(array) is CudaArray and type(other) is CudaArray) or array.storage is not other.storage:
        return False
    (first, last), (low, high) = _bounds(array), _bounds(other)
    return first < high and low < last


def _bounds(array: CudaArray) -> tuple[int, int]:
    if not array.size:
        return 0, 0
    reach = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    low = sum([extent for extent in reach if extent < 0])
    high = sum([extent for extent in reach if extent > 0])
    return array.pointer + low, array.pointer + high + array.dtype.itemsize


def _whole_shape(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    shape = tuple([int(length) for length in shape])
    if -1 in shape:
        rest = -math.prod(shape)
        if not rest or size % rest or shape.count(-1) > 1:
            raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
        shape = tuple([size // rest if length == -1 else length for length in shape])
    if math.prod(shape) != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
    return shape


def _reshaped_layout(array: CudaArray, shape: tuple[int, ...]) -> Layout | None:
    """The layout of a view under that shape; None where there is none."""
    if shape == array.shape:
        return array.layout
    strides = _strides_of_reshaped(array, shape)
    return None if strides is None else layout_of(shape, strides, array.dtype, array.device_index)


def _is_row_major(array: Any) -> bool:
    """Whether strides of dims of size 1 are all that differs from row-major ones."""
    if not array.size:
        return True
    step = array.dtype.itemsize
    for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def _strides_of_reshaped(array: CudaArray, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides with which `shape` walks through the array's memory in order; None where there are none."""
    if not array.size or array.is_contiguous:
        return contiguous_strides(shape, array.dtype.itemsize)
    old = [(size, stride) for size, stride in zip(array.shape, array.strides, strict=True) if size != 1]
    strides = []
    place = 0
    # Groups of old and new dims with the same product; inside a group the old dims must lie one in the other.
    new = [size for size in shape if size != 1]
    index = 0
    new_strides: list[int] = []
    while index < len(new):
        new_size, old_size = new[index], old[place][0]
        first_new, first_old = index, place
        while new_size != old_size:
            if new_size < old_size:
                index += 1
                new_size *= new[index]
            else:
                place += 1
                old_size *= old[place][0]
        for inner in range(first_old, place):
            if old[inner][1] != old[inner + 1][1] * old[inner + 1][0]:
                return None
        step = old[place][1]
        group = []
        for size in reversed(new[first_new : index + 1]):
            group.append(step)
            step *= size
        new_strides += group[::-1]
        index, place = index + 1, place + 1
    pending = iter(new_strides)
    last = array.dtype.itemsize
    for size in reversed(shape):
        if size != 1:
            break
    strides = [last if size == 1 else next(pending) for size in shape]
    return tuple(strides)
