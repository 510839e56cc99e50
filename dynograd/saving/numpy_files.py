"""NumPy's `.npz` files: a dict of tensors, an array to each name. Nothing is pickled, and arrays of objects are refused.

NumPy's files have no name for the dtypes of `ml_dtypes`. bfloat16 is two bytes without a meaning (`V2`), as `numpy.savez` and JAX write
it: `array.view(ml_dtypes.bfloat16)`. The types of eight bits are records of one field, which says which of them it is:
`array["float8_e4m3fn"].view(ml_dtypes.float8_e4m3fn)`.

What a reader allocates is what the file's bytes can mean: arrays must be as long as the archive says, entries do not overlap, and what is
compressed grows to at most `MOST_EXPANDED` times the file, or to `FREE` bytes.
"""

from __future__ import annotations

import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from typing import Any

import numpy

from dynograd import arrays
from dynograd.arrays import Array
from dynograd.base import dtypes
from dynograd.base.files import Output, Source
from dynograd.errors import CheckpointError
from dynograd.saving.zip_archives import new_archive
from dynograd.tensor.tensor import Tensor

__all__ = ["FREE", "MOST_EXPANDED", "is_numpy_file", "read", "write"]

MOST_EXPANDED = 100
FREE = 1 << 30
_MOMENT = (1980, 1, 1, 0, 0, 0)
_ENTRY, _EMPTY, _ENCRYPTED = b"PK\x03\x04", b"PK\x05\x06", 1
_LONGEST_HEADER = 10_000  # NumPy's own limit
_PIECE = 1 << 24
_AS_RECORDS = {kind.name: kind for kind in dtypes.FLOAT8}
_DAMAGES: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    SyntaxError,
    EOFError,
    OSError,
)
_DAMAGES += (
    ValueError,
    TypeError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    LookupError,
    AttributeError,
)


def is_numpy_file(start: bytes) -> bool:
    """Whether a file that begins so (with some hundred bytes) is an archive of arrays."""
    length = int.from_bytes(start[26:28], "little")
    return start[:4] == _EMPTY or (start[:4] == _ENTRY and start[30 : 30 + length].endswith(b".npy"))


# --- writing ------------------------------------------------------------------------------------------------------------------


def write(value: Any, output: Output) -> None:
    """Writes a dict of tensors or NumPy arrays.

    Raises:
        TypeError: it is something else; nothing has been written then.
    """
    if not isinstance(value, dict):
        raise TypeError(
            f"save: with format='npz', expected a dict of tensors by name, such as a state_dict(), got {type(value).__name__}."
        )
    entries = {name: _storable(name, entry) for name, entry in value.items()}
    with new_archive(output) as archive:
        for name, array in entries.items():
            large = array.nbytes > FREE
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _MOMENT), "w", force_zip64=large) as file:
                numpy.lib.format.write_array(file, array, allow_pickle=False)


def _storable(name: Any, value: Any) -> Array:
    """The values as an array that NumPy has a name for."""
    dense = (
        isinstance(value, Tensor) and not hasattr(type(value), "__dynograd_rows__") and value.layout.name == "strided"
    )
    if not isinstance(name, str) or not (dense or arrays.is_array(value)):
        raise TypeError(
            f"save: with format='npz', expected a dict of dense tensors by name, but {str(name)[:60]!r} is a {type(value).__name__}. Save "
            f"other things without a format, or with format='pt'."
        )
    array = arrays.to_numpy(value.array if isinstance(value, Tensor) else arrays.as_result(value))
    kind = dtypes.of_array(array)
    if kind.name in _AS_RECORDS:
        return arrays.contiguous(array).view(numpy.dtype([(kind.name, "u1")]))
    return array


# --- reading ------------------------------------------------------------------------------------------------------------------


def read(source: Source, name: str) -> dict[str, Any]:
    """The arrays of a file by name, in the dtypes of tensors.

    Args:
        source: the file.
        name: the file's, for messages.
    Raises:
        CheckpointError: it is damaged, has arrays of objects or of other dtypes, or asks for far more memory than it can mean.
    """
    try:
        with zipfile.ZipFile(source.file) as archive:
            infos = archive.infolist()
            _check_sizes(infos, len(source.view))
            return {info.filename.removesuffix(".npy"): _array(archive, info) for info in infos}
    except CheckpointError as error:
        raise CheckpointError(f"load: {name} {error}") from None
    except _DAMAGES as error:
        raise CheckpointError(
            f"load: {name} is truncated or damaged: {type(error).__name__}: {str(error)[:200]}. Use an older file."
        ) from None


def _check_sizes(infos: list[zipfile.ZipInfo], size: int) -> None:
    """Refuses archives that cannot be what `numpy.savez` writes, before anything is unpacked."""
    if len({info.filename for info in infos}) != len(infos):
        raise CheckpointError("is damaged: a name is there twice. Use an older file.")
    for info in infos:
        if not info.filename.endswith(".npy"):
            raise CheckpointError(
                f"has {info.filename[:80]!r} in it, which is no array. Expected what numpy.savez writes."
            )
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & _ENCRYPTED:
            raise CheckpointError(
                f"has {info.filename[:80]!r} encrypted or compressed in a way that NumPy does not use. Write it anew with numpy.savez."
            )
    packed, unpacked = [sum(sizes) for sizes in zip((0, 0), *[(info.compress_size, info.file_size) for info in infos])]
    if packed > size:
        raise CheckpointError("is damaged: its entries overlap. Use an older file.")
    if unpacked > max(FREE, MOST_EXPANDED * size):
        raise CheckpointError(
            f"has {size} bytes and would grow to {unpacked}, more than {MOST_EXPANDED} times as many: it is not read. If you trust it, "
            f"write it anew with numpy.savez, which does not compress."
        )


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    who = repr(info.filename.removesuffix(".npy")[:80])
    with archive.open(info) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, on headers that Python 2 wrote
        version = numpy.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise CheckpointError(f"has {who} in version {version} of NumPy's format; 1 to 3 are read.")
        read_header = (
            numpy.lib.format.read_array_header_1_0 if version == (1, 0) else numpy.lib.format.read_array_header_2_0
        )
        shape, by_columns, kind = read_header(file, max_header_size=_LONGEST_HEADER)
        if kind.hasobject:
            raise CheckpointError(f"has Python objects in {who}, which are pickled and could run code: it is not read.")
        stored = _stored(kind, who)
        rest = info.file_size - file.tell()
        if len(shape) > 64 or min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != rest:
            raise CheckpointError(f"is damaged: {who} of shape {str(shape)[:100]} has {rest} bytes. Use an older file.")
        array = arrays.empty(shape[::-1] if by_columns else shape, stored)
        target = memoryview(arrays.bytes_of(array)).cast("B")
        for begin in range(0, rest, _PIECE):
            piece = target[begin : begin + _PIECE]
            if file.readinto(piece) != len(piece):
                raise EOFError(f"{who} breaks off")
        file.read(1)  # the last read compares the checksum
    if kind.names is None and not kind.isnative:
        array.byteswap(inplace=True)
    return array.transpose() if by_columns else array


def _stored(kind: Any, who: str) -> dtypes.dtype:
    """The dtype of the tensor for values that NumPy says are of dtype `kind`."""
    if kind.names is not None and len(kind.names) == 1 and kind.names[0] in _AS_RECORDS and kind.itemsize == 1:
        return _AS_RECORDS[kind.names[0]]
    if kind.kind == "V" and kind.names is None and kind.subdtype is None and kind.itemsize == 2:
        return dtypes.bfloat16
    result = dtypes.BY_NUM.get(kind.newbyteorder("=").num)
    if result is None:
        raise CheckpointError(
            f"has {who} of NumPy's dtype {kind}, of which there are no tensors. Read it with numpy.load(..., allow_pickle=False)."
        )
    return result
