"""The structure of a PyTorch checkpoint as a pickle, written without pickling: the opcodes and names that `torch.load(weights_only=True)` takes.

Everything else is refused here, with its place, so that no file comes about that PyTorch refuses later. Memory that tensors share is one
storage of the file. It has the dtype of its tensors, as in PyTorch's files; where tensors see the same memory in several dtypes it is
untyped, and each tensor says its own.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import storages
from dynograd.base import devices, dtypes, layouts
from dynograd.base.shapes import Size
from dynograd.saving.torch_names import STORAGES
from dynograd.saving.torch_opcodes import BUILD, MARK, REDUCE, TUPLE, Opcodes
from dynograd.tensor.tensor import Tensor, wrap

__all__ = ["Pickle", "pickled"]

_DEEPEST = 100
_CLASS_OF = {dtype: name for name, dtype in STORAGES.items() if name != "UntypedStorage"}
_PLAIN = ("Tensor", "Parameter", "Buffer")


class _Storage:
    """The bytes that tensors of the checkpoint share."""

    def __init__(self, key: str, memory: Any, location: str) -> None:
        self.key, self.memory, self.location = key, memory, location
        self.dtypes: set[dtypes.dtype] = set()

    def is_typed(self) -> bool:
        """Whether one of PyTorch's typed storages says what is in it."""
        kind = next(iter(self.dtypes))
        return len(self.dtypes) == 1 and kind in _CLASS_OF and self.memory.nbytes % kind.itemsize == 0


class Pickle(Opcodes):
    """Writes one value.

    Args:
        typed: of storages by key, whether they are typed; of those that it does not know it is assumed.
    """

    def __init__(self, typed: dict[str, bool] | None = None) -> None:
        super().__init__()
        self.typed = typed or {}
        self.storages: dict[Any, _Storage] = {}
        self.around: list[int] = []
        """The `id` of the containers around what is written now."""

    # --- values -------------------------------------------------------------------------------------------------------------

    def value(self, value: Any, path: str = "") -> None:
        """Writes a value; `path` is its place, for messages.

        Raises:
            TypeError: torch.load(weights_only=True) would refuse it.
        """
        kind = type(value)
        if value is None or kind is bool:
            self.emit(b"N" if value is None else b"\x88" if value else b"\x89")
        elif kind is int:
            self.integer(value, path)
        elif kind is float:
            self.emit(b"G" + struct.pack(">d", value))
        elif kind is str:
            self.string(value)
        elif id(value) in self.around:
            raise TypeError(
                f"save: {path[:60] or 'the object'} is a {kind.__name__} that lies in itself. Save a copy without that."
            )
        elif not self.recalled(id(value)):
            self.other(value, path)

    def other(self, value: Any, path: str) -> None:
        kind = type(value)
        if isinstance(value, Tensor):
            self.any_tensor(value, path)
        elif kind is complex:
            self.name("__builtin__", "complex")
            self.emit(b"G" + struct.pack(">d", value.real), b"G" + struct.pack(">d", value.imag), b"\x86", REDUCE)
        elif kind is Size:
            self.name("torch", "Size")
            self.numbers(value, path)
            self.emit(b"\x85", REDUCE)
        elif kind is bytes:
            self.name("_codecs", "encode")
            self.string(value.decode("latin1"))
            self.string("latin1")
            self.emit(b"\x86", REDUCE)
        elif kind is bytearray:
            self.name("__builtin__", "bytearray")
            self.value(bytes(value), path)
            self.emit(b"\x85", REDUCE)
        elif isinstance(value, dtypes.dtype) and value in (*dtypes.ALL, *dtypes.FLOAT8):
            self.name("torch", value.name)
            return
        elif isinstance(value, layouts.layout):
            self.name("torch.serialization", "_get_layout")
            self.string(f"torch.{value.name}")
            self.emit(b"\x85", REDUCE)
        elif isinstance(value, devices.device):
            self.name("torch", "device")
            self.emit(MARK)
            self.string(value.type)
            if value.index is not None:
                self.integer(value.index, path)
            self.emit(TUPLE, REDUCE)
        elif kind in (list, tuple, dict, OrderedDict, set):
            self.container(value, path)
            return
        else:
            raise _refused(value, path)
        self.remember(id(value), value)

    def container(self, value: Any, path: str) -> None:
        if len(self.around) == _DEEPEST:
            raise TypeError(
                f"save: {path[:60]}... lies more than {_DEEPEST} lists and dicts deep. Save it flat, as lists of numbers."
            )
        self.around.append(id(value))
        if type(value) is tuple:
            self.emit(MARK)
            for place, entry in enumerate(value):
                self.value(entry, _join(path, place))
            self.emit(TUPLE)
            self.remember(id(value), value)
        elif type(value) is set:
            self.name("__builtin__", "set")
            self.items(list(value), path)
            self.emit(b"\x85", REDUCE)
            self.remember(id(value), value)
        elif type(value) is list:
            self.items(value, path, value)
        else:
            self.pairs(value, path)
        self.around.pop()

    def items(self, entries: list[Any], path: str, key: Any = None) -> None:
        self.emit(b"]")
        if key is not None:
            self.remember(id(key), key)
        self.emit(MARK)
        for place, entry in enumerate(entries):
            self.value(entry, _join(path, place))
        self.emit(b"e")

    def pairs(self, value: dict[Any, Any], path: str) -> None:
        if isinstance(value, OrderedDict):
            self.empty_ordered()
        else:
            self.emit(b"}")
        self.remember(id(value), value)
        self.emit(MARK)
        for key, entry in value.items():
            self.value(key, _join(path, key))
            self.value(entry, _join(path, key))
        self.emit(b"u")
        if hasattr(value, "_metadata"):
            metadata = value._metadata
            self.emit(b"}", MARK)
            self.string("_metadata")
            self.value(metadata if isinstance(metadata, OrderedDict) else dict(metadata), _join(path, "_metadata"))
            self.emit(b"u", BUILD)

    # --- tensors ------------------------------------------------------------------------------------------------------------

    def any_tensor(self, value: Any, path: str) -> None:
        if hasattr(type(value), "__dynograd_rows__"):
            self.rows(value, path)
        elif value.layout is not layouts.strided:
            self.sparse(value, path)
        elif value.is_meta:
            raise TypeError(
                f"save: {path or 'the tensor'} is on the device meta, and has no values. Give it some by to_empty() and load_state_dict()."
            )
        elif type(value).__name__ not in _PLAIN or not type(value).__module__.startswith("dynograd."):
            raise TypeError(
                f"save: {path or 'the tensor'} is a {type(value).__name__}, and torch.load(weights_only=True) makes no tensors of other "
                f"classes. Save x.detach().as_subclass(dynograd.Tensor)."
            )
        else:
            self.dense(value, path)

    def dense(self, value: Tensor, path: str) -> None:
        """A call of PyTorch's function for tensors; around it those for parameters and for attributes."""
        is_parameter = type(value).__name__ == "Parameter"
        attributes = {name: entry for name, entry in vars(value).items() if not name.startswith("_")}
        array, storage = self.stored(value)
        typed = self.typed.get(storage.key, True) and value.dtype in _CLASS_OF
        function = "torch._utils", "_rebuild_tensor_v2" if typed else "_rebuild_tensor_v3"
        if is_parameter:
            self.name("torch._utils", "_rebuild_parameter" + ("_with_state" if attributes else ""))
            self.emit(MARK)
        elif attributes:
            self.name("torch._tensor", "_rebuild_from_type_v2")
            self.emit(MARK)
        self.name(*function)
        if attributes and not is_parameter:
            self.name("torch", "Tensor")
        self.arguments(array, storage, value.dtype, typed, value.requires_grad and not is_parameter)
        if is_parameter:
            self.emit(REDUCE)
            self.value(value.requires_grad)
            self.empty_ordered()
        if attributes:
            self.value(attributes, path)
        self.emit(*((TUPLE, REDUCE) if is_parameter or attributes else (REDUCE,)))

    def arguments(self, array: Any, storage: _Storage, dtype: dtypes.dtype, typed: bool, requires_grad: bool) -> None:
        """Of PyTorch's function for tensors: the storage, and how the tensor lies in it."""
        item = array.dtype.itemsize
        self.emit(MARK, MARK)
        self.string("storage")
        self.name("torch" if typed else "torch.storage", _CLASS_OF[dtype] if typed else "UntypedStorage")
        self.string(storage.key)
        self.string(storage.location)
        self.integer(storage.memory.nbytes // (item if typed else 1), "")
        self.emit(TUPLE, b"Q")
        self.integer(_offset(array, storage.memory) // item, "")
        self.numbers(array.shape, "")
        self.numbers([step // item for step in array.strides], "")
        self.value(bool(requires_grad))
        self.empty_ordered()
        if not typed:
            self.name("torch", dtype.name)
        self.emit(TUPLE)

    def stored(self, value: Tensor) -> tuple[Any, _Storage]:
        """The tensor's array, and its storage. Both are new where PyTorch has no such strides: of an array that NumPy turned round."""
        array = value.array
        memory, item = storages.bytes_of(array), array.dtype.itemsize
        place: Any = str(value.device), arrays.address_of(memory), memory.nbytes
        if not array.size or any([step < 0 or step % item for step in (*array.strides, _offset(array, memory))]):
            array = arrays.copy(arrays.contiguous(array))
            memory, place = storages.bytes_of(array), len(self.storages)
        if place not in self.storages:
            self.storages[place] = _Storage(str(len(self.storages)), memory, str(value.device))
        self.storages[place].dtypes.add(value.dtype)
        return array, self.storages[place]

    def sparse(self, value: Any, path: str) -> None:
        """The layout, and the tensors that a sparse one is made of."""
        name = value.layout.name
        if name == "sparse_coo":
            parts = value._indices(), value._values(), value.shape, value.is_coalesced()
        elif name in ("sparse_csr", "sparse_bsr"):
            parts = value.crow_indices(), value.col_indices(), value.values(), value.shape
        else:
            parts = value.ccol_indices(), value.row_indices(), value.values(), value.shape
        self.name("torch._utils", "_rebuild_sparse_tensor")
        self.emit(MARK)
        self.value(value.layout)
        self.value(tuple([part.detach() if isinstance(part, Tensor) else part for part in parts]), path)
        self.emit(TUPLE, REDUCE)

    def rows(self, value: Any, path: str) -> None:
        """A nested tensor of PyTorch: rows one after the other, with their sizes, strides and places."""
        rows = [arrays.contiguous(arrays.to_numpy(row.array)) for row in value.detach().unbind()]
        if value.requires_grad or not rows:
            raise TypeError(
                f"save: {path or 'the object'} is a ragged tensor that {'requires grad' if rows else 'has no rows'}, which PyTorch's files "
                f"do not say of nested tensors. Save {'x.detach()' if rows else 'a tensor'}."
            )
        sizes = numpy.array([row.shape for row in rows], numpy.int64).reshape(len(rows), rows[0].ndim)
        counts = sizes.prod(1, dtype=numpy.int64)
        strides = numpy.array([[step // row.dtype.itemsize for step in row.strides] for row in rows], numpy.int64)
        buffer = numpy.concatenate([row.reshape(-1) for row in rows])
        self.name("torch._utils", "_rebuild_nested_tensor")
        self.emit(MARK)
        for part in (buffer, sizes, strides.reshape(sizes.shape), numpy.cumsum(counts) - counts):
            self.value(wrap(part), path)
        self.emit(TUPLE, REDUCE)


def pickled(value: Any) -> tuple[bytes, list[tuple[str, Any]]]:
    """The pickle of a value, and (key, bytes on the CPU) of its storages.

    Raises:
        TypeError: it holds something that torch.load(weights_only=True) refuses; the message names its place.
    """
    pickle = Pickle()
    pickle.value(value)
    typed = {storage.key: storage.is_typed() for storage in pickle.storages.values()}
    if not all(typed.values()):
        pickle = Pickle(typed)
        pickle.value(value)
    return pickle.text(), [(storage.key, arrays.to_numpy(storage.memory)) for storage in pickle.storages.values()]


def _offset(array: Any, memory: Any) -> int:
    return arrays.address_of(array) - arrays.address_of(memory) if array.size else 0


def _join(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def _refused(value: Any, path: str) -> TypeError:
    kind, place = type(value), path or "the object"
    if hasattr(value, "state_dict"):
        hint = "Save its state_dict() instead."
    elif arrays.is_array(value):
        hint = "Save dynograd.from_numpy(array), or x.item() of a number."
    else:
        hint = "Convert it to numbers, strings, lists, dicts or tensors, or leave format='pt' out."
    return TypeError(
        f"save: {place} is a {kind.__module__}.{kind.__qualname__}, which torch.load(weights_only=True) refuses. {hint}"
    )
