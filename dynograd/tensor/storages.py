"""The memory of tensors: `resize_`, `set_`, and storages, the bytes that views share.

A NumPy array cannot grow where it lies. A tensor that outgrows its memory gets new memory that begins with the old values, and takes
the tensors it shares memory with along: its base and that base's living views. Arrays that only NumPy knows of, and what `detach()`
gave before, stay on the old memory.
"""

from __future__ import annotations

import gc
import mmap
import os
import weakref
from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import Array, storages
from dynograd.autograd.modes import MODES
from dynograd.autograd.writes import before_rebinding, stamp
from dynograd.base import devices, dtypes
from dynograd.base.hints import DeviceLike, DtypeLike
from dynograd.base.memory_formats import channels_last, channels_last_3d, preserve_format
from dynograd.base.shapes import as_shape, check_sizes, check_tensor
from dynograd.errors import DeviceError, DtypeError, GradientError, ShapeError
from dynograd.interpreter.tensor_parts import Meta, base_of, view_of
from dynograd.interpreter.tensor_parts import is_shared as has_views
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]


def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Changes the tensor's own shape. Elements stay where they lie in memory; new ones hold anything.

    The tensor keeps its memory, and what shares it, as long as the new shape fits; see this module's docstring for growing.

    Args:
        sizes: the sizes, as numbers.
        size: the same, as a tuple.
        memory_format: accepted by its name; see `dynograd.memory_format`.
    Returns:
        The tensor itself.
    Raises:
        GradientError: the tensor requires grad.
        ShapeError: a negative size.

    >>> x = tensor([1, 2, 3, 4])
    >>> x.resize_(2, 2)
    tensor([[1, 2],
            [3, 4]])
    """
    shape = check_sizes("resize_", as_shape("resize_", sizes if size is None else (size,)))
    if self.requires_grad:
        raise GradientError(
            "resize_: cannot resize variables that require grad. Use x.reshape(...), or x.detach().clone().resize_(...)."
        )
    array = self.array
    if shape == array.shape and memory_format is None:
        return self
    item = array.dtype.itemsize
    strides = storages.row_major(shape, item)
    rank = getattr(memory_format, "rank", 0)
    if rank:
        if len(shape) != rank:
            raise ShapeError(
                f"resize_: memory_format={memory_format} wants {rank} dimensions, got {len(shape)} (shape {shape})."
            )
        inner = storages.row_major((shape[0], *shape[2:], shape[1]), item)
        strides = (inner[0], inner[-1], *inner[1:-1])
    _place(self, array.dtype, shape, strides, _offset(array))
    return self


def resize_as_(self: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    """`resize_` to the shape of another tensor.

    Args:
        the_template: tensor of the wanted shape.
        memory_format: accepted by its name; see `dynograd.memory_format`.
        input: tensor that is changed.
    Returns:
        `input`.

    >>> dynograd.resize_as_(dynograd.zeros(4), dynograd.zeros(2, 2)).shape
    dynograd.Size([2, 2])
    """
    check_tensor("resize_as_", "the_template", the_template)
    if memory_format is preserve_format:
        is_of_channels = arrays.image_order(the_template.array) is not None
        memory_format = (
            (channels_last if the_template.array.ndim == 4 else channels_last_3d) if is_of_channels else None
        )
    return resize_(self, tuple(the_template.array.shape), memory_format=memory_format)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The tensor in another shape of as many elements (old; use `reshape`).

    Args:
        sizes: the sizes.
    Returns:
        A tensor of that shape.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     tensor([1, 2, 3, 4]).resize(2, 2)
    tensor([[1, 2],
            [3, 4]])
    """
    return self.reshape(*sizes)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The tensor in the shape of another one of as many elements (old; use `reshape`).

    Args:
        tensor: tensor of the wanted shape.
    Returns:
        A tensor of that shape.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     tensor([1, 2, 3, 4]).resize_as(dynograd.zeros(2, 2))
    tensor([[1, 2],
            [3, 4]])
    """
    return self.reshape(tensor.shape)


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Makes this tensor stand on the memory of `source`: a tensor or storage, with `size` and `stride` in elements.

    Without a source it becomes empty.

    Args:
        source: tensor or storage.
        storage_offset: elements before the first.
        size, stride: ints, as many of each.
    Returns:
        The tensor itself.
    Raises:
        DtypeError: the source is a tensor or typed storage of another dtype.
        ShapeError: size, stride and offset reach out of the storage.

    >>> x, y = dynograd.zeros(0), tensor([1.0, 2.0, 3.0])
    >>> x.set_(y.untyped_storage(), 1, (2,))
    tensor([2., 3.])
    """
    if self.requires_grad and self.node is not None and MODES.grad:
        raise GradientError(
            "set_: a tensor with a history cannot be set to other memory. Use detach(), or assign to .data of a leaf."
        )
    before_rebinding(self)
    if source is None:
        _unlink(self)
        self.array = arrays.empty((0,), self.dtype, self.device)
        return self
    if isinstance(source, (Tensor, TypedStorage)) and source.dtype is not self.dtype:
        raise DtypeError(f"set_: source has dtype {source.dtype}, but the tensor is {self.dtype}. Convert it first.")
    if isinstance(source, Tensor) and size is None and not storage_offset:
        array = source.array
    else:
        memory = storages.bytes_of(source.array) if isinstance(source, Tensor) else source._memory
        if isinstance(source, Tensor) and size is None:
            raise TypeError(
                "set_: with a storage_offset, size is needed too: set_(source, storage_offset, size, stride)."
            )
        item = self.array.dtype.itemsize
        if size is None:
            size = (memory.nbytes // item - storage_offset,)
        shape = check_sizes("set_", as_shape("set_", (tuple(size) if isinstance(size, (tuple, list)) else (size,),)))
        steps = storages.row_major(shape, item) if stride is None else tuple([step * item for step in stride])
        if len(steps) != len(shape):
            raise ShapeError(f"set_: mismatch in length of strides and shape: size {shape}, stride {tuple(stride)}.")
        needed = _needed(shape, steps, item, storage_offset * item)
        if storage_offset < 0 or min(steps, default=0) < 0 or needed > memory.nbytes:
            raise ShapeError(
                f"set_: sizes {list(shape)}, strides {[step // item for step in steps]}, storage offset {storage_offset} and itemsize "
                f"{item} require a storage of {needed} bytes, out of bounds for storage of {memory.nbytes} bytes."
            )
        array = storages.placed(memory, self.array.dtype, shape, steps, storage_offset * item)
    if arrays.place_of(array) != arrays.place_of(self.array):
        raise DeviceError(
            f"set_: source is on {arrays.device_of(array)}, but the tensor is on {self.device}. Move it with to()."
        )
    _unlink(self)
    self.array = array
    return self


def _unlink(tensor: Tensor) -> None:
    """It is no view of its base any more."""
    if view_of(tensor) is not None:
        tensor.meta().view = None


def _offset(array: Any) -> int:
    """In bytes, from the beginning of the memory."""
    return arrays.address_of(array) - arrays.address_of(storages.bytes_of(array)) if array.size else 0


def _needed(shape: tuple[int, ...], strides: tuple[int, ...], item: int, offset: int) -> int:
    if 0 in shape:
        return offset
    return offset + sum([(size - 1) * step for size, step in zip(shape, strides)]) + item


def _place(tensor: Tensor, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
    """Puts the tensor's array elsewhere in its memory; where that is too small, everything on it moves to new memory."""
    before_rebinding(tensor)
    memory = storages.bytes_of(tensor.array)
    needed = _needed(shape, strides, dtype.itemsize, offset)
    if needed > memory.nbytes:
        memory = _move(tensor, memory, needed)
    _unlink(tensor)
    tensor.array = storages.placed(memory, dtype, shape, strides, offset)


def _base_or_itself(tensor: Tensor) -> Tensor:
    base = base_of(tensor)
    return tensor if base is None else base


def _sharing(tensor: Tensor) -> list[Tensor]:
    """The tensor, its base and that base's living views: what the garbage collector knows to refer to the base as views do.

    It is asked in the two rare cases that memory moves. Of what is frozen (`gc.freeze`) it knows nothing.
    """
    base = _base_or_itself(tensor)
    result = [base] if tensor is base else [base, tensor]
    if has_views(base):
        records = [
            each for each in gc.get_referrers(base) if type(each) is tuple and len(each) == 6 and each[0] is base
        ]
        having = gc.get_referrers(*records) if records else []
        metas = [each for each in having if type(each) is Meta]
        having += gc.get_referrers(*metas) if metas else []
        result += [each for each in having if isinstance(each, Tensor) and each is not tensor and base_of(each) is base]
    return result


def _move(tensor: Tensor, memory: Any, nbytes: int, into: Any = None) -> Array:
    """New memory that begins with the old values, under the tensor and what is known to share its memory."""
    before_rebinding(tensor)
    start, owner = arrays.address_of(memory), arrays.base_of(tensor.array)
    result = storages.renewed(memory, nbytes) if into is None else into
    for sharing in _sharing(tensor) if memory.nbytes else ():  # nothing lies on memory of no bytes
        array = sharing.array
        if array.size and arrays.base_of(array) is owner:
            stamp(array)
            sharing.array = storages.placed(
                result, array.dtype, array.shape, array.strides, arrays.address_of(array) - start
            )
    return result


def _give_back(tensors: list[Tensor], memory: Any) -> None:
    """Takes the memory away from the tensors on it, which keep their shapes."""
    start = arrays.address_of(memory)
    for tensor in tensors:
        array = tensor.array
        if array.size and type(array) is not storages.FreedArray:
            before_rebinding(tensor)
            stamp(array)
            tensor.array = storages.freed(array, arrays.address_of(array) - start)


def _fill_freed(tensors: list[Tensor], memory: Any) -> None:
    """Puts tensors whose memory was given back on this, where it is large enough; its values are anything."""
    for tensor in tensors:
        array = tensor.array
        if type(array) is storages.FreedArray:
            if _needed(array.shape, array.strides, array.itemsize, array.offset) <= memory.nbytes:
                before_rebinding(tensor)
                tensor.array = storages.placed(memory, array.dtype, array.shape, array.strides, array.offset)


# --- storages ----------------------------------------------------------------------------------------------------------------


class UntypedStorage:
    """The bytes that a tensor and its views share. `UntypedStorage(n)` makes n new ones.

    Args:
        size: how many bytes, or a list of them.
        device: where they lie.

    >>> x = tensor([1, 2, 3], dtype=dynograd.uint8)
    >>> x[1:].untyped_storage().tolist()
    [1, 2, 3]
    >>> x.untyped_storage() == x[1:].untyped_storage()
    True
    """

    __slots__ = ("_memory", "_of")
    is_sparse = is_sparse_csr = False

    def __init__(self, size: int | Sequence[int] = 0, *, device: DeviceLike = None) -> None:
        if isinstance(size, int):
            place = arrays.check_device("UntypedStorage", device)
            self._memory = arrays.empty(check_sizes("UntypedStorage", (size,)), dtypes.uint8, place)
        else:
            self._memory = arrays.from_python(list(size), dtypes.uint8)
        self._of: Any = None  # the tensor it was asked of

    @classmethod
    def _over(cls, memory: Any, tensor: Any = None) -> UntypedStorage:
        result = object.__new__(cls)
        result._memory = memory
        result._of = None if tensor is None else weakref.ref(tensor)
        return result

    @staticmethod
    def from_file(filename: str | PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file, read when they are used; what is written goes into the file with `shared=True`, else nowhere.

        Args:
            shared: whether what is written goes into the file.
            nbytes: how many of them; with `shared=True` the file is made, and as long, if it is shorter.
            filename: path of the file.
        Returns:
            The storage.
        Raises:
            RuntimeError: the file is shorter.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "bytes")
        >>> dynograd.UntypedStorage.from_file(path, shared=True, nbytes=2).fill_(7).tolist()
        [7, 7]
        >>> dynograd.UntypedStorage.from_file(path, nbytes=1).tolist()
        [7]
        """
        with open(filename, "a+b" if shared else "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if shared and size < nbytes:
                file.truncate(nbytes)
            elif size < nbytes:
                raise RuntimeError(f"UntypedStorage.from_file: {filename} has {size} bytes, {nbytes} were asked for.")
            if not nbytes:
                return UntypedStorage(0)
            pages = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        return UntypedStorage._over(numpy.frombuffer(pages, numpy.uint8))

    def __deepcopy__(self, memo: dict) -> UntypedStorage:
        if id(self) not in memo:
            memo[id(self)] = UntypedStorage._over(storages.bytes_of(storages.copied_memory(self._memory, memo)))
        return memo[id(self)]

    # --- what it is -----------------------------------------------------------------------------------------------------

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return arrays.address_of(self._memory)

    def nbytes(self) -> int:
        """How many bytes."""
        return self._memory.nbytes

    size = nbytes

    def __len__(self) -> int:
        return self._memory.nbytes

    def element_size(self) -> int:
        """1."""
        return 1

    itemsize = 1

    @property
    def device(self) -> devices.device:
        """Where the bytes live."""
        return arrays.device_of(self._memory)

    is_cuda = property(lambda self: self.device.type == "cuda", doc="Whether the bytes live in a GPU's memory.")

    def get_device(self) -> int:
        """The index of the CUDA device, -1 for the CPU."""
        index = self.device.index
        return -1 if index is None else index

    def is_shared(self) -> bool:
        """Whether other processes see what is written."""
        return storages.is_shared(self._memory)

    def is_pinned(self, device: DeviceLike = None) -> bool:
        """Whether it lies in pinned host memory.

        Args:
            device: accepted.
        Returns:
            A bool.
        """
        return arrays.is_pinned(self._memory)

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, UntypedStorage)
            and self.data_ptr() == other.data_ptr()
            and self.nbytes() == other.nbytes()
            and self.device == other.device
            and (self.nbytes() > 0 or self._memory is other._memory)
        )

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    # --- bytes ----------------------------------------------------------------------------------------------------------

    @property
    def _array(self) -> Array:
        return self._memory

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return UntypedStorage._over(self._memory[index])
        return self._memory[_position("UntypedStorage", index, len(self))].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        place = index if isinstance(index, slice) else _position("UntypedStorage", index, len(self))
        arrays.write(self._memory[place if isinstance(place, slice) else slice(place, place + 1)], _values(value))
        stamp(self._memory)

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The bytes as ints."""
        return arrays.tolist(self._memory)

    def fill_(self, value: int) -> UntypedStorage:
        """Sets every byte.

        Args:
            value: from 0 to 255.
        Returns:
            The storage itself.
        """
        self._memory.fill(value)
        stamp(self._memory)
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> UntypedStorage:
        """Copies the bytes of a storage of the same size.

        Args:
            source: storage of as many bytes.
            non_blocking: accepted.
        Returns:
            The storage itself.
        """
        if source.nbytes() != self.nbytes():
            raise ShapeError(
                f"copy_: size mismatch: this storage has {self.nbytes()} bytes, the source {source.nbytes()}."
            )
        arrays.write(self._memory, arrays.to_device(source._memory, arrays.place_of(self._memory)))
        stamp(self._memory)
        return self

    def clone(self) -> UntypedStorage:
        """The same bytes in new memory."""
        return UntypedStorage._over(arrays.copy(self._memory))

    def resize_(self, size: int) -> UntypedStorage:
        """Changes the number of bytes; tensors on it move along as in `Tensor.resize_`.

        With 0 the memory is given back while tensors keep their shapes: reading them is an error until the storage is as large again, or
        `set_` gives them other memory.

        Args:
            size: number of bytes.
        Returns:
            The storage itself.
        Raises:
            ShapeError: a tensor would stand on fewer bytes than it needs, but not none.
        """
        check_sizes("resize_", (size,))
        tensor = None if self._of is None else self._of()
        on_it = [] if tensor is None else _sharing(tensor)
        for sharing in on_it if size else ():
            needed = _needed(
                sharing.array.shape, sharing.array.strides, sharing.array.dtype.itemsize, _offset(sharing.array)
            )
            if sharing.array.size and needed > size and type(sharing.array) is not storages.FreedArray:
                raise ShapeError(
                    f"resize_: a tensor of shape {tuple(sharing.array.shape)} needs {needed} bytes of this storage, got {size}. "
                    f"Resize the tensor first: x.resize_(0), or x.data = empty(0)."
                )
        result = storages.renewed(self._memory, size)
        if not size and not self.is_cuda:
            _give_back(on_it, self._memory)
        elif tensor is not None and type(tensor.array) is storages.FreedArray:
            _fill_freed(on_it, result)
        elif tensor is not None:
            _move(tensor, self._memory, size, result)
            if not tensor.array.size:
                tensor.array = storages.placed(result, tensor.array.dtype, tensor.array.shape, tensor.array.strides, 0)
        self._memory = result
        return self

    def share_memory_(self) -> UntypedStorage:
        """Moves the bytes, and the tensors on them, into memory that forked processes share."""
        if not self.is_shared():
            shared_bytes = storages.shared_bytes(self._memory)
            tensor = None if self._of is None else self._of()
            if tensor is not None:
                _move(tensor, self._memory, shared_bytes.nbytes, shared_bytes)
            self._memory = shared_bytes
        return self

    def cpu(self) -> UntypedStorage:
        """The bytes in host memory; itself when they lie there."""
        return (
            self
            if not self.is_cuda
            else UntypedStorage._over(arrays.to_device(self._memory, arrays.check_device("cpu", "cpu")))
        )

    def cuda(self, device: DeviceLike = None, non_blocking: bool = False) -> UntypedStorage:
        """A copy in a GPU's memory.

        Args:
            device: which GPU; the current one by default.
            non_blocking: accepted.
        Returns:
            A storage on that GPU.
        """
        place = arrays.check_device("cuda", "cuda" if device is None else device)
        return UntypedStorage._over(arrays.to_device(self._memory, place))

    def __repr__(self) -> str:
        return f"<dynograd.UntypedStorage of {self.nbytes()} bytes, device={self.device}>"


class TypedStorage:
    """A storage whose elements have a dtype (old; `untyped_storage` is what programs use now).

    Args:
        size: how many elements, or a list of them.
        wrap_storage: the untyped storage to stand on, instead.
        dtype: of the elements.
        device: where it lies.

    >>> tensor([1.0, 2.0]).storage().tolist()
    [1.0, 2.0]
    """

    __slots__ = ("_storage", "dtype")
    is_sparse = False

    def __init__(
        self,
        *size: int | Sequence[float],
        wrap_storage: UntypedStorage | None = None,
        dtype: DtypeLike = None,
        device: DeviceLike = None,
        _internal: bool = False,
    ) -> None:
        self.dtype = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        if wrap_storage is not None:
            self._storage = wrap_storage
        elif size and not isinstance(size[0], int):
            values = arrays.from_python(list(size[0]), self.dtype)
            self._storage = UntypedStorage._over(storages.bytes_of(values))
        else:
            self._storage = UntypedStorage((size[0] if size else 0) * self.dtype.itemsize, device=device)

    @property
    def _memory(self) -> Array:
        return self._storage._memory

    @property
    def _array(self) -> Array:
        memory, item = self._memory, self.dtype.itemsize
        return storages.placed(memory, self.dtype.numpy, (memory.nbytes // item,), (item,), 0)

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._storage

    def __getattr__(self, name: str) -> Any:
        if name in _SHARED:
            return getattr(self._storage, name)
        raise AttributeError(f"TypedStorage has no attribute {name!r}. Use .untyped(), which UntypedStorage's are of.")

    def size(self) -> int:
        """How many elements."""
        return self._memory.nbytes // self.dtype.itemsize

    __len__ = size

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return TypedStorage(
                wrap_storage=UntypedStorage._over(storages.bytes_of(arrays.copy(self._array[index]))), dtype=self.dtype
            )
        return self._array[_position("TypedStorage", index, len(self))].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        place = index if isinstance(index, slice) else _position("TypedStorage", index, len(self))
        arrays.write(self._array[place if isinstance(place, slice) else slice(place, place + 1)], _values(value))
        stamp(self._memory)

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TypedStorage) and self.dtype is other.dtype and self._storage == other._storage

    def __hash__(self) -> int:
        return hash(self._storage)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return arrays.tolist(self._array)

    def fill_(self, value: float) -> TypedStorage:
        """Sets every element.

        Args:
            value: number.
        Returns:
            The storage itself.
        """
        self._array.fill(value)
        stamp(self._memory)
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Copies as many elements of another typed storage, converted.

        Args:
            source: typed storage of as many elements.
            non_blocking: accepted.
        Returns:
            The storage itself.
        """
        if len(source) != len(self):
            raise ShapeError(f"copy_: size mismatch: this storage has {len(self)} elements, the source {len(source)}.")
        arrays.write(self._array, arrays.to_device(source._array, arrays.place_of(self._memory)))
        stamp(self._memory)
        return self

    def clone(self) -> TypedStorage:
        """The same elements in new memory."""
        return TypedStorage(wrap_storage=self._storage.clone(), dtype=self.dtype)

    def resize_(self, size: int) -> TypedStorage:
        """Changes the number of elements; see `UntypedStorage.resize_`.

        Args:
            size: number of elements.
        Returns:
            The storage itself.
        """
        self._storage.resize_(size * self.dtype.itemsize)
        return self

    def share_memory_(self) -> TypedStorage:
        """See `UntypedStorage.share_memory_`."""
        self._storage.share_memory_()
        return self

    def __repr__(self) -> str:
        return f"<dynograd.TypedStorage of {len(self)} elements, dtype={self.dtype}, device={self._storage.device}>"


_SHARED = frozenset({"data_ptr", "nbytes", "device", "is_cuda", "get_device", "is_shared", "is_pinned"})


def _position(who: str, index: Any, count: int) -> int:
    place = index.__index__()
    if not -count <= place < count:
        raise IndexError(f"{who}: index {place} out of range for storage of size {count}.")
    return place + count if place < 0 else place


def _values(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.array
    return value._array if isinstance(value, TypedStorage) else getattr(value, "_memory", value)


def is_storage(obj: object) -> bool:
    """Whether `obj` is a storage.

    Args:
        obj: anything.
    Returns:
        A bool.

    >>> dynograd.is_storage(tensor([1.0]).untyped_storage())
    True
    """
    return isinstance(obj, (UntypedStorage, TypedStorage))


# --- methods of Tensor -------------------------------------------------------------------------------------------------------


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The bytes that this tensor and its views share.

    >>> tensor([1.0, 2.0]).untyped_storage().nbytes()
    8
    """
    if MODES.plan is not None:
        MODES.plan.before_lending(self)
    return UntypedStorage._over(storages.bytes_of(self.array), _base_or_itself(self))


def storage(self: Tensor) -> TypedStorage:
    """The memory that this tensor and its views share, as elements of its dtype (old; see `untyped_storage`).

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     tensor([1.0, 2.0]).storage().tolist()
    [1.0, 2.0]
    """
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self.dtype)


def storage_type(self: Tensor) -> type:
    """The class of `storage()`.

    >>> tensor([1.0]).storage_type()
    <class 'dynograd.tensor.storages.TypedStorage'>
    """
    return TypedStorage


def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor into memory that forked processes share; what is on a GPU is left where it is.

    >>> tensor([1.0]).share_memory_().is_shared()
    True
    """
    untyped_storage(self).share_memory_()
    return self


def is_shared(self: Tensor) -> bool:
    """Whether other processes see what is written: after `share_memory_()`, or on a GPU.

    >>> tensor([1.0]).is_shared()
    False
    """
    return storages.is_shared(self.array)


def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replaces each element by `callable(element)`, in place; slow, for tests and odd functions.

    Args:
        callable: function of a number that returns one.
    Returns:
        The tensor itself.

    >>> tensor([1.0, 2.0]).apply_(lambda x: 10 * x)
    tensor([10., 20.])
    """
    return _elementwise("apply_", self, callable)


def map_(self: Tensor, other: Tensor, callable: Any) -> Tensor:
    """Replaces each element by `callable(element, other)`, with the element of `other` (broadcast) beside it; slow.

    Args:
        other: tensor, broadcast to this one.
        callable: function of two numbers that returns one.
    Returns:
        The tensor itself.

    >>> tensor([1.0, 2.0]).map_(tensor([3.0, 4.0]), lambda a, b: a + b)
    tensor([4., 6.])
    """
    return _elementwise("map_", self, callable, other)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Writes `callable(a, b, c)` of each three elements of this tensor, `x` and `y` (slow: Python for each element).

    Args:
        x, y (*): tensors, broadcast to this one.
        callable: function of three numbers that returns one.
    Returns:
        The tensor itself.

    >>> tensor([1.0]).map2_(tensor([2.0]), tensor([3.0]), lambda a, b, c: a + b * c)
    tensor([7.])
    """
    return _elementwise("map2_", self, callable, x, y)


def _elementwise(who: str, self: Tensor, function: Any, *others: Tensor) -> Tensor:
    for operand in (self, *others):
        if operand.is_cuda:
            raise TypeError(
                f"{who}: only implemented on CPU tensors, got one on {operand.device}. Use x.cpu(), and ops instead."
            )
        if operand.requires_grad:
            raise GradientError(
                f"{who}: Can't call {who}() on Variable that requires grad. Use var.detach().{who}(), or ops, which are recorded."
            )
    shape = self.array.shape
    operands = [self.array.reshape(-1).tolist()]
    operands += [arrays.broadcast_to(tensor.array, shape).reshape(-1).tolist() for tensor in others]
    numbers_out = [function(*values) for values in zip(*operands)]
    return self.copy_(wrap(arrays.from_python(numbers_out, self.dtype).reshape(shape)))


def _base(self: Tensor) -> Tensor | None:
    return base_of(self)


def _is_view(self: Tensor) -> bool:
    """Whether this tensor is a view of another.

    >>> x = tensor([1.0, 2.0])
    >>> x[1:]._is_view(), x._is_view()
    (True, False)
    """
    return base_of(self) is not None


def install_storages() -> None:
    """Puts these methods on Tensor."""
    for method in (
        resize_, resize_as_, resize, resize_as, set_, untyped_storage, storage, storage_type, share_memory_, is_shared, apply_, map_, map2_,
        _is_view,
    ):  # fmt: skip
        setattr(Tensor, method.__name__, method)
    Tensor._base = property(_base, doc="The tensor of which this one is a view, or None.")  # type: ignore[assignment, method-assign]
