"""Checkpoints that PyTorch wrote (`torch.save`): the zip format and the one before it. Nothing is unpickled, see `torch_pickles`.

The bytes of a storage are read once, straight into the memory of its tensors, by a few threads that check the archive's checksums
while the bytes are still in the cache. Tensors that shared a storage share it again, with their strides.
"""

from __future__ import annotations

import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy

from dynograd import arrays, checksums, devices, dtypes, tensor_parts
from dynograd.arrays import storages
from dynograd.errors import CheckpointError
from dynograd.files import Source
from dynograd.shapes import Size
from dynograd.tensor import Tensor, wrap
from dynograd.torch_pickles import PLAIN_BUILDS, PLAIN_CALLS, Global, Machine, check_nesting

__all__ = ["is_torch_file", "read"]

_LEGACY = 0x1950A86A20F9469CFC6C
_LEGACY_START = re.compile(rb"(?:\x80[\x02-\x05])?(?:\x95.{8})?\x8a\x0a" + _LEGACY.to_bytes(10, "little"), re.DOTALL)
_NEWEST = 10
_LOCATION = re.compile(r"(cpu|cuda|mps|xpu|hpu|npu|xla|mtia|privateuseone)(:\d{1,3})?")
_OLDER = "Use an older checkpoint."


def is_torch_file(start: bytes) -> bool:
    """Whether a file that begins so is a zip archive or PyTorch's older format."""
    return start[:4] == b"PK\x03\x04" or _LEGACY_START.match(start) is not None


def read(file: Any, who: str, place: Callable[[str], devices.device]) -> Any:
    """What `torch.save` wrote.

    Args:
        file: an open binary file, at its beginning, or the bytes.
        who: its name, for messages.
        place: the device for what was saved on the device of that name.
    """
    source = Source(file)
    try:
        load = _Zip if bytes(source.view[:2]) == b"PK" else _Legacy
        return load(source, who, place).load()
    finally:
        source.close()


class _Read:
    """A piece of the file that becomes a storage."""

    __slots__ = ("target", "offset", "checksum", "name", "dtype", "done")

    def __init__(self, target: Any, offset: int, checksum: int | None, name: str, dtype: dtypes.dtype) -> None:
        self.target, self.offset, self.checksum, self.name, self.dtype = target, offset, checksum, name, dtype
        self.done = False


class _Storage(Global):
    """Memory that tensors share, and its dtype. On the CPU the bytes come when the structure is known."""

    __slots__ = ("memory", "dtype", "fill")

    def __init__(self, memory: Any, dtype: dtypes.dtype, fill: Callable[[], None]) -> None:
        self.name, self.memory, self.dtype, self.fill = "a storage", memory, dtype, fill


class _Loader:
    """What both formats have in common: storages and the reading of their bytes."""

    swapped = False

    def __init__(self, source: Source, who: str, place: Callable[[str], devices.device]) -> None:
        self.source, self.who, self.place = source, who, place
        self.size = len(source.view)
        self.pieces: dict[str, tuple[int, int, int | None]] = {}  # offset, length, checksum by the storage's key
        self.reads: dict[str, _Read] = {}
        self.memories: dict[tuple[str, devices.device], Any] = {}
        self.devices: dict[str, devices.device] = {}

    def error(self, problem: str) -> CheckpointError:
        return CheckpointError(f"load: {self.who} {problem}")

    def machine(self, data: Any, position: int = 0, persistent: Callable | None = None, calls: Any = None) -> Machine:
        machine = Machine(data, self.who, position, _CONSTANTS, calls or _CALLS, _BUILDS, persistent)
        machine.hashable = (dtypes.dtype, devices.device)
        return machine

    def parts_of(self, saved: Any, count: int) -> tuple:
        """(dtype, key, device's name, elements, ...) of a persistent id ("storage", type, key, device's name, elements, ...)."""
        if type(saved) is tuple and len(saved) > 1 and saved[0] in ("module", b"module"):
            name = saved[1].name if type(saved[1]) is Global else type(saved[1]).__name__
            raise self.error(
                f"holds a module ({name}), which is not data. Where PyTorch is installed, save its state_dict()."
            )
        if type(saved) is not tuple or len(saved) != count or saved[0] not in ("storage", b"storage"):
            raise self.error(f"is damaged: a persistent id names no storage. {_OLDER}")
        kind, key, location, elements, *rest = saved[1:]
        if type(kind) is not Global or (name := kind.name.rpartition(".")[2]) not in _STORAGES:
            raise self.error(f"is damaged: a storage's type is not known. {_OLDER}")
        if type(key) is not str or type(elements) is not int or elements < 0:
            raise self.error(f"is damaged: storage {str(key)[:40]!r} of {str(elements)[:40]} elements. {_OLDER}")
        return _STORAGES[name], key, location, elements, *rest

    def storage(self, dtype: dtypes.dtype, key: str, location: Any, elements: int) -> _Storage:
        if key not in self.pieces:
            raise self.error(f"lacks the storage {key[:40]!r}: it is incomplete. {_OLDER}")
        offset, length, checksum = self.pieces[key]
        if elements * dtype.itemsize != length:
            raise self.error(
                f"is damaged: storage {key!r} has {length} bytes, but {elements} elements of {dtype} are said to be in it. {_OLDER}"
            )
        if key not in self.reads:
            self.reads[key] = _Read(arrays.empty((length,), dtypes.uint8), offset, checksum, f"data/{key}", dtype)
        one = self.reads[key]
        device = self.device(location)
        if (key, device) not in self.memories:
            if device.type != "cpu":
                self.fill([one])
            self.memories[key, device] = arrays.to_device(one.target, device)
        return _Storage(self.memories[key, device], dtype, lambda: self.fill([one]))

    def device(self, location: Any) -> devices.device:
        if location not in self.devices:
            if type(location) is not str or not _LOCATION.fullmatch(location):
                raise self.error(f"is damaged: it has a tensor on {str(location)[:40]!r}. {_OLDER}")
            self.devices[location] = self.place(location)
        return self.devices[location]

    def fill(self, reads: Any) -> None:
        """Reads storages, a few shares at a time, and compares checksums."""
        reads = [one for one in reads if not one.done]
        for one in reads:
            one.done = True
        wanted = [(one.target, one.offset, one.checksum is not None) for one in reads]
        try:
            found = checksums.read_all(wanted, self.source.read_into)
        except EOFError:
            raise self.error(f"became shorter while it was read. {_OLDER}") from None
        for one, checksum in zip(reads, found):
            if checksum != one.checksum:
                raise self.error(
                    f"is damaged: the bytes of {one.name} have checksum {checksum:08x}, expected {one.checksum:08x}. {_OLDER}"
                )
            width = one.dtype.to_real().itemsize
            if self.swapped and width > 1:
                one.target.view(f"u{width}").byteswap(inplace=True)

    def finished(self, value: Any) -> Any:
        check_nesting(value, self.who)
        self.fill(self.reads.values())
        return value


class _Zip(_Loader):
    """An archive: data.pkl, and a file for each storage, uncompressed."""

    def load(self) -> Any:
        self.entries = self.listed()
        pickled = [name for name in self.entries if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(pickled) != 1:
            raise self.error(
                f"is a zip archive without a data.pkl of torch.save ({len(self.entries)} entries). Pass a file that torch.save wrote."
            )
        root = self.root = pickled[0].partition("/")[0]
        order = self.content("byteorder", b"little")
        if order not in (b"little", b"big"):
            raise self.error(f"is damaged: its byteorder is {order[:20]!r}. {_OLDER}")
        self.swapped = order.decode() != sys.byteorder
        version = self.content("version", b"3").strip()
        if not version.isdigit() or not 1 <= int(version[:9]) <= _NEWEST:
            raise self.error(
                f"has version {version[:20]!r} of PyTorch's format; up to {_NEWEST} is known. Save it as safetensors."
            )
        for name, piece in self.entries.items():
            if name.startswith(f"{root}/data/"):
                self.pieces[name[len(root) + 6 :]] = piece
        machine = self.machine(self.content("data.pkl"), 0, lambda saved: self.storage(*self.parts_of(saved, 5)))
        value = machine.read()
        if machine.position != len(machine.data):
            raise self.error(f"is damaged: data.pkl goes on after its end. {_OLDER}")
        return self.finished(value)

    def listed(self) -> dict[str, tuple[int, int, int | None]]:
        """(offset, length, checksum) of each file in the archive. PyTorch can be told to write no checksums: then all are 0."""
        try:
            with zipfile.ZipFile(self.source.file) as archive:
                infos = archive.infolist()
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            EOFError,
            ValueError,
            OverflowError,
            OSError,
            struct.error,
        ) as error:
            raise self.error(f"is truncated or damaged: {error} ({self.size} bytes). {_OLDER}") from None
        if any([info.filename.endswith("/constants.pkl") and info.filename.count("/") == 1 for info in infos]):
            raise self.error(
                "is a TorchScript program (torch.jit.save), not a checkpoint. Where PyTorch is installed, save its state_dict()."
            )
        checked = any([info.CRC for info in infos])
        found = {info.filename: (self.offset(info), info.file_size, info.CRC if checked else None) for info in infos}
        if len(found) != len(infos) or sum([length for _, length, _ in found.values()]) > self.size:
            raise self.error(f"is damaged: entries of the archive overlap. {_OLDER}")
        return found

    def offset(self, info: zipfile.ZipInfo) -> int:
        """Where an entry's bytes begin; what the archive says of it twice must agree."""
        who = f"the entry {info.filename[:80]!r}"
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise self.error(
                f"has {who} compressed or encrypted, which torch.save never does. Unpack it and zip it with `zip -0`."
            )
        at = info.header_offset
        if at < 0 or at + 30 > self.size or bytes(self.source.view[at : at + 4]) != b"PK\x03\x04":
            raise self.error(f"is damaged: {who} is not where the archive says. {_OLDER}")
        name_length, extra_length = struct.unpack("<HH", self.source.view[at + 26 : at + 30])
        name = bytes(self.source.view[at + 30 : at + 30 + name_length])
        if name.decode("utf-8" if info.flag_bits & 0x800 else "cp437", "replace") != info.orig_filename:
            raise self.error(f"is damaged: {who} has two names. {_OLDER}")
        at += 30 + name_length + extra_length
        if at + info.file_size > self.size:
            raise self.error(f"is truncated: {who} breaks off. {_OLDER}")
        return at

    def content(self, name: str, default: bytes = b"") -> bytes:
        """A small file of the archive."""
        if f"{self.root}/{name}" not in self.entries:
            return default
        offset, length, checksum = self.entries[f"{self.root}/{name}"]
        raw = bytes(self.source.view[offset : offset + length])
        if checksum is not None and zlib.crc32(raw) != checksum:
            raise self.error(
                f"is damaged: the bytes of {name} have checksum {zlib.crc32(raw):08x}, expected {checksum:08x}. {_OLDER}"
            )
        return raw


class _Legacy(_Loader):
    """Pickles one after the other (magic number, version, system, the object, keys), then the storages in the order of the keys."""

    def load(self) -> Any:
        self.position = 0
        if self.pickled() != _LEGACY:
            raise self.error(f"is damaged: it does not begin as PyTorch's files do. {_OLDER}")
        version, system = self.pickled(), self.pickled()
        if version != 1001 or not isinstance(system, dict):
            raise self.error(f"is damaged: its version is {str(version)[:40]}, expected 1001. {_OLDER}")
        self.swapped = bool(system.get("little_endian", True)) != (sys.byteorder == "little")
        start = self.position
        kinds: dict[str, tuple[dtypes.dtype, int]] = {}

        def note(saved: Any) -> None:
            dtype, key, _, elements, _ = self.parts_of(saved, 6)
            kinds[key] = dtype, elements

        self.pickled(note, _OUTLINE)  # where the structure ends, and what the storages are
        self.find(self.pickled(), kinds)
        self.position = start
        return self.finished(self.pickled(self.viewed))

    def pickled(self, persistent: Callable | None = None, calls: Any = None) -> Any:
        machine = self.machine(self.source.view, self.position, persistent, calls)
        value = machine.read()
        self.position = machine.position
        return value

    def find(self, keys: Any, kinds: dict[str, tuple[dtypes.dtype, int]]) -> None:
        at = self.position
        if type(keys) is not list or any([type(key) is not str for key in keys]) or set(keys) != set(kinds):
            raise self.error(f"is damaged: its list of storages is not that of its tensors. {_OLDER}")
        for key in keys:
            dtype, elements = kinds[key]
            length = elements * dtype.itemsize
            if at + 8 + length > self.size:
                raise self.error(f"is truncated: storage {key!r} of {length} bytes breaks off. {_OLDER}")
            (said,) = struct.unpack("<q", self.source.view[at : at + 8])
            if said != elements:
                raise self.error(f"is damaged: storage {key!r} has {said} elements, expected {elements}. {_OLDER}")
            self.pieces[key] = at + 8, length, None
            at += 8 + length
        if at != self.size:
            raise self.error(f"is damaged: {self.size - at} bytes are left over. {_OLDER}")

    def viewed(self, saved: Any) -> _Storage:
        dtype, key, location, elements, view = self.parts_of(saved, 6)
        whole = self.storage(dtype, key, location, elements)
        if view is None:
            return whole
        _, offset, count = view
        if not 0 <= offset <= offset + count <= elements:
            raise self.error(f"is damaged: a view of storage {key!r} lies outside of it. {_OLDER}")
        part = whole.memory[offset * dtype.itemsize : (offset + count) * dtype.itemsize]
        return _Storage(part, dtype, whole.fill)


# --- what names in a checkpoint stand for ---------------------------------------------------------------------------------------


def _wrong(what: str) -> TypeError:
    return TypeError(f"wrong {what}")


def _tensor(machine: Machine, storage: Any, offset: Any, size: Any, stride: Any, dtype: Any = None) -> Tensor:
    if type(storage) is not _Storage or not isinstance(size, (tuple, list)) or not isinstance(stride, (tuple, list)):
        raise _wrong("arguments of a tensor")
    dtype = storage.dtype if dtype is None else dtype
    if (
        any([type(one) is not int or not 0 <= one < 1 << 62 for one in (offset, *size, *stride)])
        or type(dtype) is not dtypes.dtype
    ):
        raise machine.error(
            f"is damaged: a tensor has size {size!r:.100}, strides {stride!r:.100}, offset {offset!r:.40}. {_OLDER}"
        )
    if len(size) != len(stride) or len(size) > 64:
        raise machine.error(f"is damaged: a tensor has {len(size)} sizes and {len(stride)} strides. {_OLDER}")
    item, total = dtype.itemsize, storage.memory.nbytes
    last = offset + sum([(length - 1) * step for length, step in zip(size, stride)])
    if 0 not in size and (last + 1) * item > total:
        raise machine.error(
            f"is damaged: a tensor of size {tuple(size)}, strides {tuple(stride)} and offset {offset} needs {(last + 1) * item} bytes, "
            f"its storage has {total}. {_OLDER}"
        )
    machine.pay(1024)
    steps = storages.row_major(tuple(size), item) if 0 in size else tuple([step * item for step in stride])
    return wrap(storages.placed(storage.memory, dtype.numpy, tuple(size), steps, offset * item))


def _tensor_2(
    machine: Machine,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
    dtype: Any = None,
) -> Tensor:
    made = _tensor(machine, storage, offset, size, stride, dtype)
    if isinstance(metadata, dict) and (metadata.get("conj") or metadata.get("neg")):
        storage.fill()
        made = made.conj() if metadata.get("conj") else made
        made = -made if metadata.get("neg") else made
    return _with_grad(machine, made, requires_grad)


def _tensor_3(
    machine: Machine,
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    return _tensor_2(machine, storage, offset, size, stride, grad, hooks, metadata, dtype)


def _with_grad(machine: Machine, made: Tensor, requires_grad: Any) -> Tensor:
    if requires_grad:
        if not (made.dtype.is_floating_point or made.dtype.is_complex):
            raise machine.error(f"is damaged: a tensor of {made.dtype} is said to require a gradient. {_OLDER}")
        made.requires_grad = True
    return made


def _parameter(machine: Machine, data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Tensor:
    if not isinstance(data, Tensor):
        raise _wrong("data of a parameter")
    made = tensor_parts.make_parameter(data.detach(), requires_grad=False)
    return _with_attributes(_with_grad(machine, made, requires_grad), state)


def _with_attributes(made: Tensor, state: Any) -> Tensor:
    """Attributes that a program gave its tensor; they never hide what tensors have themselves."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in part.items() if isinstance(part, dict) else ():
            if type(name) is str and name.isidentifier() and not name.startswith("_") and not hasattr(made, name):
                setattr(made, name, value)
    return made


def _of_type(machine: Machine, function: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    made = machine.call(function, arguments)
    if not isinstance(made, Tensor) or type(kind) is not Global or kind.name not in _CLASSES:
        raise _wrong("type of a tensor")
    if kind.name.endswith("Parameter") and type(made) is Tensor:
        return _parameter(machine, made, made.requires_grad, None, state)
    return _with_attributes(made, state)


def _only_named(machine: Machine, *arguments: Any) -> Any:
    raise machine.error(f"calls a class of PyTorch, which data does not need. Save a state_dict(). {_OLDER}")


def _size(machine: Machine, items: Any = ()) -> Size:
    machine.pay(8 * len(items))
    if any([type(one) is not int for one in items]):
        raise _wrong("size")
    return Size(items)


def _device(machine: Machine, kind: Any, index: Any = None) -> devices.device:
    name = kind if index is None else f"{kind}:{index}"
    if type(kind) is not str or not _LOCATION.fullmatch(name):
        raise _wrong("device")
    return devices.device(name)


class _NumpyDtype(Global):
    """NumPy's name of a type; bytes are compared with its size before anything is made."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.name, self.dtype = "numpy.dtype", dtype


def _numpy_dtype(machine: Machine, text: Any, *rest: Any) -> _NumpyDtype:
    if type(text) is not str or not re.fullmatch(r"[<>=|]?(?:b1|[iu][1248]|f[248]|c8|c16|[SU]\d{1,9})", text):
        raise machine.error(f"holds a NumPy array of {str(text)[:40]!r}, which is not plain data. Save it as a tensor.")
    return _NumpyDtype(numpy.dtype(text))


def _set_byte_order(machine: Machine, value: _NumpyDtype, state: Any) -> None:
    if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
        raise _wrong("state of a dtype")
    value.dtype = value.dtype.newbyteorder(state[1])


def _numpy_scalar(machine: Machine, kind: Any, raw: Any) -> Any:
    if type(kind) is not _NumpyDtype or type(raw) is not bytes or len(raw) != kind.dtype.itemsize:
        raise _wrong("NumPy scalar")
    return numpy.frombuffer(raw, kind.dtype)[0]


def _numpy_array(machine: Machine, *arguments: Any) -> Any:
    return numpy.empty(0, numpy.uint8)


def _numpy_from_bytes(machine: Machine, raw: Any, kind: Any, shape: Any, order: Any) -> Any:
    made = numpy.empty(0, numpy.uint8)
    _set_array(machine, made, (1, shape, kind, order == "F", bytes(raw) if type(raw) is bytearray else raw))
    return made


def _set_array(machine: Machine, value: Any, state: Any) -> None:
    _, shape, kind, by_columns, raw = state
    if (
        type(kind) is not _NumpyDtype
        or type(raw) is not bytes
        or type(by_columns) is not bool
        or type(shape) is not tuple
    ):
        raise _wrong("state of an array")
    count = 1
    for length in shape:
        if type(length) is not int or not 0 <= length < 1 << 62 or len(shape) > 64:
            raise _wrong("shape of an array")
        count *= length
    if count * kind.dtype.itemsize != len(raw):
        raise machine.error(f"is damaged: an array of shape {shape} has {len(raw)} bytes. {_OLDER}")
    machine.pay(len(raw))
    value.__setstate__((1, shape, kind.dtype, by_columns, raw))


_STORAGES: dict[str, dtypes.dtype] = {
    "FloatStorage": dtypes.float32,
    "DoubleStorage": dtypes.float64,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
    "UntypedStorage": dtypes.uint8,
}
_CLASSES = ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter", "torch.nn.Parameter")
_CONSTANTS: dict[str, Any] = {f"torch.{one.name}": one for one in (*dtypes.ALL, *dtypes.FLOAT8)}
_CALLS: dict[str, Callable] = {
    **PLAIN_CALLS,
    **{f"{place}.{name}": _only_named for place in ("torch", "torch.cuda", "torch.storage") for name in _STORAGES},
    **dict.fromkeys((*_CLASSES, "numpy.ndarray"), _only_named),
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_2,
    "torch._utils._rebuild_tensor_v3": _tensor_3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch.Size": _size,
    "torch.device": _device,
    "numpy.dtype": _numpy_dtype,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray._reconstruct": _numpy_array,
    "numpy._core.numeric._frombuffer": _numpy_from_bytes,
}
_BUILDS: dict[type, Callable] = {
    **PLAIN_BUILDS,
    _NumpyDtype: _set_byte_order,
    numpy.ndarray: _set_array,
    type(None): lambda machine, value, state: None,  # of `_OUTLINE`
}
_OUTLINE: dict[str, Callable] = {name: PLAIN_CALLS.get(name, lambda machine, *arguments: None) for name in _CALLS}
