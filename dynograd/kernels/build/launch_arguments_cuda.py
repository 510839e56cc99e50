"""Arguments of GPU kernels: what kinds there are, which type a kernel sees for each, and how they are packed for the driver."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

import numpy

from dynograd.arrays.cuda_arrays import CudaArray
from dynograd.errors import DeviceError, DtypeError

_POINTERS = {
    "bool": "*i1", "int8": "*i8", "int16": "*i16", "int32": "*i32", "int64": "*i64",
    "uint8": "*u8", "uint16": "*u16", "uint32": "*u32", "uint64": "*u64",
    "float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32", "float64": "*fp64",
}  # fmt: skip
FORMATS = {
    "i1": "B", "u1": "B", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
    "fp32": "f", "fp64": "d",
}  # fmt: skip
_SLOTS = 256
INT32 = range(-(1 << 31), 1 << 31)
INT64 = range(-(1 << 63), 1 << 63)


class Double(float):
    """A float argument that the kernel takes as float64."""

    __slots__ = ()


PLAIN = (int, float, bool, str)
ROLES: dict[type, str] = {CudaArray: "A", int: "i", float: "f", Double: "d", bool: "b", type(None): "N"}


class _Block(threading.local):
    """This thread's parameter block: a word for each argument, and the words' addresses as the driver wants them."""

    def __init__(self) -> None:
        words = bytearray(8 * _SLOTS)
        first = ctypes.addressof((ctypes.c_char * len(words)).from_buffer(words))
        addresses = (ctypes.c_void_p * _SLOTS)(*range(first, first + 8 * _SLOTS, 8))
        self.block = (words, ctypes.addressof(addresses), addresses)


parameter_blocks = _Block()  # `.block`: (words, address of the array with the words' addresses, that array)


def parameter_block() -> tuple[bytearray, int, Any]:
    """This thread's (words, address of the array with the words' addresses, that array)."""
    return parameter_blocks.block


def type_of(value: Any) -> str:
    """The type, in Triton's words, that a kernel sees for an argument.

    Raises:
        DtypeError: no kernel takes an array of its dtype.
    """
    kind = type(value)
    if kind is CudaArray:
        pointer = _POINTERS.get(value.dtype.name)
        if pointer is None:
            raise DtypeError(
                f"no GPU kernel takes arrays of {value.dtype}; pass their parts (x.real, x.imag), or use x.cpu()."
            )
        return pointer
    if kind is int:
        return "i32" if value in INT32 else "i64"
    return {bool: "i1", float: "fp32", Double: "fp64", type(None): "None"}[kind]


def array_of(value: Any, who: str) -> CudaArray | None:
    """The CudaArray of a Tensor or CudaArray; None for other values.

    Raises:
        DeviceError: it is on the CPU.
    """
    before = getattr(value, "_before_own_kernel", None)
    if before is not None:
        before()
    array = value if isinstance(value, CudaArray) else getattr(value, "array", None)
    if isinstance(array, CudaArray):
        return array
    if isinstance(value, numpy.ndarray) or isinstance(array, numpy.ndarray):
        raise DeviceError(
            f"{who}: an argument of shape {value.shape} is on the CPU; the kernel runs on a GPU. Use x.to('cuda')."
        )
    return None


def alignment_mask(*pointers: int) -> int:
    """Which pointers are no multiples of 16, as bits; never 0."""
    mask = 1
    for pointer in pointers:
        mask = mask << 1 | (pointer & 15 != 0)
    return mask


def packed_as(kind: str) -> str:
    """How `struct` writes an argument, in words of 8 bytes."""
    if kind == "None":
        return ""
    if kind[0] == "[":
        return "QQqqQqq"
    letter = "Q" if kind[0] == "*" else FORMATS[kind]
    return f"{letter}{8 - struct.calcsize(letter)}x"
