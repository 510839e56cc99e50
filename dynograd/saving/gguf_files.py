"""Weights in `.gguf` files, as llama.cpp and its like keep them: read, and given back as tensors with the file's metadata.

    4 bytes      GGUF, then the version, the number of tensors and that of the metadata's entries
    metadata     key, type, value, ...: numbers, strings, lists of them
    tensors      name, sizes (the last dimension first), type, place, ...
    data         at a multiple of `general.alignment` bytes

The header is read here and each number in it is held against the file's length, which the package `gguf` does not do: it allocates and
loops as the file says. What the package knows best, the numbers in blocks of quantised types, it turns into float32: `gguf.quants`.
"""

from __future__ import annotations

import math
import os
import struct
from types import ModuleType
from typing import Any, NamedTuple

import numpy

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.files import Source, open_ordinary
from dynograd.base.signatures import show_plainly as _show_plainly
from dynograd.errors import CheckpointError
from dynograd.saving.checkpoint_trees import Reader
from dynograd.tensor.tensor import wrap

__all__ = ["GGUF", "load_gguf", "read"]

_VERSIONS = (2, 3)
_ALIGNMENT = 32
_MOST_DIMENSIONS = 8
_MOST_NESTED = 4
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = dict(enumerate("<u1 <i1 <u2 <i2 <u4 <i4 <f4 |b1 - - <u8 <i8 <f8".split()))
_PLAIN = {
    0: dtypes.float32,
    1: dtypes.float16,
    24: dtypes.int8,
    25: dtypes.int16,
    26: dtypes.int32,
    27: dtypes.int64,
    28: dtypes.float64,
    30: dtypes.bfloat16,
}


class GGUF(NamedTuple):
    """What a `.gguf` file holds.

    Args:
        tensors: by name, in the order of the file.
        metadata: numbers, strings and lists by key, such as "general.architecture".

    >>> tensors, metadata = dynograd.saving.GGUF({"weight": tensor([1.0])}, {"general.name": "tiny"})
    """

    tensors: dict[str, Any]
    metadata: dict[str, Any]


def load_gguf(f: Any, map_location: Any = None) -> GGUF:
    """The tensors and the metadata of a `.gguf` file. Quantised types become float32; all others stay what they are.

    Quantised types need the extra `gguf` (`pip install "dynograd[gguf]"`).

    Args:
        f: path or open binary file.
        map_location: device for the tensors, as in `load`.
    Returns:
        (tensors, metadata), two dicts.
    Raises:
        CheckpointError: not such a file, truncated, damaged, or a tensor of a type that is not known.
        ImportError: there are quantised tensors, and the package `gguf` is not installed.
        FileNotFoundError: there is no such file.

    >>> import numpy, os, struct, tempfile
    >>> def text(string):
    ...     return struct.pack("<Q", len(string)) + string.encode()
    >>> header = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("general.name") + struct.pack("<I", 8) + text("tiny")
    >>> header += text("weight") + struct.pack("<IQIQ", 1, 2, 0, 0)
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.gguf")
    >>> with open(path, "wb") as file:
    ...     _ = file.write(header + bytes(-len(header) % 32) + numpy.array([1, 2], "<f4").tobytes())
    >>> dynograd.saving.load_gguf(path)
    GGUF(tensors={'weight': tensor([1., 2.])}, metadata={'general.name': 'tiny'})
    """
    if hasattr(f, "read"):
        name = str(getattr(f, "name", "the given file"))
        with Source(bytes(f.read())) as source:
            contents = read(source, name)
    else:
        name = os.fspath(f)
        with open_ordinary(name) as file, Source(file, name) as source:
            contents = read(source, name)
    place = Reader(name, {}, map_location).place("cpu")
    tensors = {key: wrap(arrays.to_device(array, place)) for key, array in contents.tensors.items()}
    return GGUF(tensors, contents.metadata)


def read(source: Source, name: str) -> GGUF:
    """The arrays and the metadata of a file, which is `name` in messages.

    Raises:
        CheckpointError: it is damaged, incomplete, or no such file.
    """
    header = _Header(source.view)
    try:
        metadata, places = header.read()
        return GGUF({key: _array(source.view, key, place) for key, place in places.items()}, metadata)
    except CheckpointError as error:
        raise CheckpointError(f"load: {name} {error}") from None
    except (UnicodeDecodeError, struct.error) as error:
        raise CheckpointError(
            f"load: {name} is truncated or damaged at byte {header.position} ({str(error)[:100]}). Use another copy."
        ) from None


class _Place(NamedTuple):
    """Where a tensor is."""

    shape: tuple[int, ...]
    kind: int
    begin: int
    nbytes: int


class _Header:
    """Reads numbers and strings, none of them from behind the end."""

    def __init__(self, view: Any) -> None:
        self.view, self.position = view, 0

    def take(self, count: int) -> memoryview:
        end = self.position + count
        if end > len(self.view):
            raise CheckpointError(
                f"is truncated or damaged: {count} bytes are wanted at byte {self.position}, of {len(self.view)}. Use another copy."
            )
        piece = self.view[self.position : end]
        self.position = end
        return piece

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def string(self) -> str:
        return bytes(self.take(self.number("<Q"))).decode("utf-8")

    def read(self) -> tuple[dict[str, Any], dict[str, _Place]]:
        if bytes(self.take(4)) != b"GGUF":
            raise CheckpointError("is no GGUF file: it does not begin with these letters.")
        version = self.number("<I")
        if version not in _VERSIONS:
            swapped = " (of a big-endian machine)" if version & 0xFFFF == 0 else ""
            raise CheckpointError(
                f"has version {version}{swapped} of GGUF; 2 and 3 are read. Convert it with llama.cpp."
            )
        tensors, entries = self.number("<Q"), self.number("<Q")
        metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self.string()
            if key in metadata:
                raise CheckpointError(f"is damaged: {key[:80]!r} is twice in its metadata. Use another copy.")
            metadata[key] = self.value(self.number("<I"))
        listed = [(self.string(), *self.tensor()) for _ in range(tensors)]
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise CheckpointError(
                f"is damaged: its alignment is {str(alignment)[:40]}, expected a power of 2. Use another copy."
            )
        return metadata, self.placed(listed, self.position + -self.position % alignment)

    def value(self, kind: int, depth: int = 0) -> object:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            kind, count = self.number("<I"), self.number("<Q")
            if kind in (_STRING, _ARRAY):
                if depth == _MOST_NESTED:
                    raise CheckpointError(
                        f"has lists in its metadata that lie more than {_MOST_NESTED} deep: it is not read."
                    )
                return [self.value(kind, depth + 1) for _ in range(count)]
            return self.numbers(kind, count).tolist()
        return self.numbers(kind, 1).tolist()[0]

    def numbers(self, kind: int, count: int) -> numpy.ndarray:
        form = _NUMBERS.get(kind, "-")
        if form == "-":
            raise CheckpointError(f"is damaged: a value of type {kind} in its metadata. Use another copy.")
        raw = self.take(count * numpy.dtype(form).itemsize)
        values = numpy.frombuffer(raw, "u1" if kind == _BOOL else form)
        return values != 0 if kind == _BOOL else values

    def tensor(self) -> tuple[tuple[int, ...], int, int]:
        rank = self.number("<I")
        if rank > _MOST_DIMENSIONS:
            raise CheckpointError(
                f"is damaged: a tensor has {rank} dimensions, at most {_MOST_DIMENSIONS} are read. Use another copy."
            )
        shape = [self.number("<Q") for _ in range(rank)]
        return tuple(reversed(shape)), self.number("<I"), self.number("<Q")

    def placed(self, listed: list[tuple[str, tuple[int, ...], int, int]], begin: int) -> dict[str, _Place]:
        """The tensors' places, when all lie in the file and none in another."""
        places: dict[str, _Place] = {}
        for name, shape, kind, offset in listed:
            per_block, of_block = _block(name, kind)
            if math.prod([size or 1 for size in shape]) >= 1 << 60 or (shape and shape[-1] % per_block):
                raise CheckpointError(
                    f"is damaged: {name[:80]!r} of shape {str(shape)[:100]} does not consist of blocks of {per_block}. Use another copy."
                )
            place = _Place(shape, kind, begin + offset, math.prod(shape) // per_block * of_block)
            if name in places or place.begin + place.nbytes > len(self.view):
                problem = "is there twice" if name in places else f"of {place.nbytes} bytes breaks off"
                raise CheckpointError(f"is truncated or damaged: {name[:80]!r} {problem}. Use another copy.")
            places[name] = place
        end = 0
        for name, place in sorted(places.items(), key=lambda item: item[1].begin):
            if place.nbytes and place.begin < end:
                raise CheckpointError(f"is damaged: {name[:80]!r} lies in another tensor. Use another copy.")
            end = max(end, place.begin + place.nbytes)
        return places


def _block(name: str, kind: int) -> tuple[int, int]:
    """(elements, bytes) of a block of a type."""
    if kind in _PLAIN:
        return 1, _PLAIN[kind].itemsize
    gguf = _package(name)
    try:
        quantised = gguf.GGMLQuantizationType(kind)
        return gguf.GGML_QUANT_SIZES[quantised]
    except (ValueError, KeyError):
        raise CheckpointError(
            f"has {name[:80]!r} of type {kind}, which the package gguf does not know. Update it, or the file is damaged."
        ) from None


def _package(name: str) -> ModuleType:
    try:
        import gguf
        import gguf.quants
    except ImportError as error:
        raise ImportError(
            f"load: the tensor {name[:80]!r} is quantised, and the package gguf, which knows these types, is not there ({error}). "
            f"pip install 'dynograd[gguf]'"
        ) from error
    return gguf


def _array(view: Any, name: str, place: _Place) -> Array:
    kind = _PLAIN.get(place.kind)
    raw = numpy.frombuffer(view[place.begin : place.begin + place.nbytes], numpy.uint8)
    if kind is not None:
        array = arrays.empty(place.shape, kind)
        arrays.bytes_of(array)[:] = raw
        return array
    gguf = _package(name)
    quantised = gguf.GGMLQuantizationType(place.kind)
    if not place.nbytes:
        return arrays.empty(place.shape, dtypes.float32)
    try:
        with numpy.errstate(all="ignore"):
            rows = gguf.quants.dequantize(raw.reshape(*place.shape[:-1], -1), quantised)
    except NotImplementedError:
        raise CheckpointError(
            f"has {name[:80]!r} of type {quantised.name}, which the package gguf cannot turn into numbers. Convert the file with llama.cpp."
        ) from None
    array = arrays.empty(place.shape, dtypes.float32)
    array[...] = rows.reshape(place.shape)
    return array


_show_plainly(globals())
