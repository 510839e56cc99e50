"""DLPack: arrays handed to and taken from other libraries without a copy (https://dmlc.github.io/dlpack).

NumPy does it for arrays of the CPU; here are the structures of the protocol for memory on a GPU, and for dtypes that NumPy has not. Of the
two kinds of capsules the newer says its version and flags, among them that the memory must not be written.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

from dynograd.arrays import cuda_arrays
from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.base import dtypes
from dynograd.cuda import driver, streams
from dynograd.errors import DeviceError

__all__ = ["capsule_of", "device_of_capsules", "from_capsule"]

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
VERSION = (1, 1)  # of the protocol, as it is written; all of version 1 is read
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_CODES_OF_OTHERS = {dtypes.bfloat16: 4, dtypes.float8_e4m3fn: 10, dtypes.float8_e5m2: 12}
_OTHERS = {(code, 8 * kind.itemsize): kind for kind, code in _CODES_OF_OTHERS.items()}
_READ_ONLY, _IS_COPIED = 1, 2


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_KINDS: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _ManagedVersioned}
_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
# The same functions for a capsule that is being destroyed, which must not be counted again.
_name_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))

_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}
_lent: dict[int, Any] = {}  # address of a structure -> what must live as long as its taker


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _give_back(address: int) -> None:
    _lent.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: int) -> None:
    """A capsule that nobody took."""
    for name in _KINDS:
        if _name_is(capsule, name):
            _lent.pop(_pointer_in(capsule, name), None)


def device_of_capsules(array: Any) -> tuple[int, int]:
    """(kind, index) of the device as DLPack numbers them."""
    return (CUDA, array.device_index) if type(array) is CudaArray else (CPU, 0)


def capsule_of(array: Any, stream: int | None = None, max_version: Any = None, copied: bool = False) -> Any:
    """A capsule with the array's memory, for `from_dlpack` of another library.

    Args:
        stream: the taker's raw stream, which is made to wait for the work on ours; -1: no waiting is wanted.
        max_version: the newest version of the protocol that the taker knows; None: it knows the capsules without versions only.
        copied: whether nobody else has the memory.
    Raises:
        BufferError: the array must not be written, and the taker knows no capsules that say so.
    """
    kind = dtypes.of_array(array)
    if type(array) is not CudaArray and kind not in _CODES_OF_OTHERS:
        return array.__dlpack__(max_version=max_version)
    if type(array) is CudaArray:
        _order(array.device_index, stream)
        data, device, read_only = array.pointer, _Device(CUDA, array.device_index), False
    else:
        data, device, read_only = array.__array_interface__["data"][0], _Device(CPU, 0), not array.flags.writeable
    name = b"dltensor" if max_version is None or max_version[0] < 1 else b"dltensor_versioned"
    managed = _KINDS[name]()
    if name == b"dltensor_versioned":
        managed.major, managed.minor = VERSION
        managed.flags = _READ_ONLY * read_only | _IS_COPIED * copied
    elif read_only:
        raise BufferError(
            "__dlpack__: this memory must not be written, which a capsule without a version cannot say. Pass max_version=(1, 0), or x.clone()."
        )
    rank, size = len(array.shape), array.dtype.itemsize
    shape = (ctypes.c_int64 * rank)(*array.shape)
    strides = (ctypes.c_int64 * rank)(*[step // size for step in array.strides])
    managed.tensor = _Tensor(
        data,
        device,
        rank,
        _Type(_CODES_OF_OTHERS.get(kind) or _CODES[array.dtype.kind], 8 * size, 1),
        ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)),
        0,
    )
    managed.deleter = ctypes.cast(_give_back, ctypes.c_void_p).value
    address = ctypes.addressof(managed)
    _lent[address] = (managed, shape, strides, array)
    return _api.PyCapsule_New(address, name, ctypes.cast(_destroy, ctypes.c_void_p))


def _order(device: int, stream: int | None) -> None:
    """Makes the taker's stream wait for ours. 1 and 2 are CUDA's names of its default streams."""
    if stream == -1:
        return
    own, taker = streams.current_handle(device), 0 if stream in (None, 1) else stream
    if own != taker:
        used = driver.get("dlpack")
        event = used.create_event(device, False, False)
        used.record_event(device, event, own)
        used.stream_wait_event(device, taker, event)
        used.destroy_event(device, event)


class _Taken:
    """Memory of another library; given back when the last view of it is gone."""

    __slots__ = ("__weakref__", "device", "managed", "nbytes", "pointer", "read_only")

    def __init__(self, managed: Any, pointer: int, device: int, nbytes: int, read_only: bool) -> None:
        self.managed, self.pointer, self.device, self.nbytes, self.read_only = (
            managed,
            pointer,
            device,
            nbytes,
            read_only,
        )

    def __del__(self) -> None:
        if self.managed.deleter:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.managed.deleter)(ctypes.addressof(self.managed))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (self.nbytes,), "typestr": "|u1", "data": (self.pointer, self.read_only), "version": 3}


def from_capsule(capsule: Any) -> tuple[Any, bool]:
    """The array in a capsule, which must not have been taken before, and whether its memory must not be written.

    Raises:
        BufferError: a version of the protocol that is not known.
        DeviceError: memory of a device that dynograd does not know.
        TypeError: a dtype that it does not know.
        ValueError: the capsule has been taken.
    """
    name = b"dltensor_versioned" if _api.PyCapsule_IsValid(capsule, b"dltensor_versioned") else b"dltensor"
    managed = _KINDS[name].from_address(_api.PyCapsule_GetPointer(capsule, name))
    read_only = False
    if name == b"dltensor_versioned":
        if managed.major != VERSION[0]:
            raise BufferError(
                f"from_dlpack: version {managed.major}.{managed.minor} of DLPack; dynograd knows version {VERSION[0]}. Update it."
            )
        read_only = bool(managed.flags & _READ_ONLY)
    tensor = managed.tensor
    kind = _dtype_of(tensor.dtype)
    shape = tuple([tensor.shape[dim] for dim in range(tensor.ndim)])
    if tensor.strides:
        strides = tuple([tensor.strides[dim] * kind.itemsize for dim in range(tensor.ndim)])
    else:
        strides = cuda_arrays.contiguous_strides(shape, kind.itemsize)
    pointer = (tensor.data or 0) + tensor.byte_offset
    reach = [(size - 1) * step for size, step in zip(shape, strides, strict=True)]
    low = sum([extent for extent in reach if extent < 0])
    nbytes = sum([extent for extent in reach if extent > 0]) - low + kind.itemsize if 0 not in shape else 0
    if tensor.device.type in (CUDA, CUDA_MANAGED):
        owner = _Taken(managed, pointer + low, tensor.device.index, nbytes, read_only)
        array: Any = CudaArray(owner, pointer, shape, strides, kind)
    elif tensor.device.type in (CPU, CUDA_HOST):
        owner = _Taken(managed, pointer + low, -1, nbytes, read_only)
        flat = numpy.asarray(owner)
        array = numpy.ndarray(shape, kind, flat, -low, strides) if nbytes else numpy.empty(shape, kind)
    else:
        raise DeviceError(
            f"from_dlpack: memory of DLPack device kind {tensor.device.type}; dynograd takes that of the CPU (1) and of CUDA (2)."
        )
    _api.PyCapsule_SetName(capsule, _USED[name])
    return array, read_only


def _dtype_of(described: _Type) -> Any:
    if described.lanes == 1:
        other = _OTHERS.get((described.code, described.bits))
        if other is not None:
            return other.numpy
        letter = next((letter for letter, code in _CODES.items() if code == described.code), "")
        kind = numpy.dtype(f"{letter}{described.bits // 8}") if letter and described.bits % 8 == 0 else None
        if kind is not None and kind.num in dtypes.BY_NUM:
            return kind
    raise TypeError(
        f"from_dlpack: no dtype for DLPack's code {described.code}, {described.bits} bits, {described.lanes} lanes. Convert on the other side."
    )
