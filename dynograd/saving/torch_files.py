"""Checkpoints that PyTorch wrote (`torch.save`): the zip format and the one before it. Nothing is unpickled, see `torch_pickles`.

What names in the structure stand for is told in `torch_names`. The bytes of a storage are read once, straight into the memory of its
tensors, by a few threads that check the archive's checksums while the bytes are still in the cache. Tensors that shared a storage share
it again, with their strides.
"""

from __future__ import annotations

import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from dynograd import arrays
from dynograd.base import checksums, devices, dtypes
from dynograd.base.files import Source
from dynograd.errors import CheckpointError
from dynograd.saving import objects
from dynograd.saving.torch_names import BUILDS, CALLS, CONSTANTS, HASHABLE, LOCATION, OUTLINE, STORAGES
from dynograd.saving.torch_pickles import Global, Machine, check_nesting
from dynograd.tensor.storages import TypedStorage, UntypedStorage

__all__ = ["is_torch_file", "read"]

_LEGACY = 0x1950A86A20F9469CFC6C
_LEGACY_START = re.compile(rb"(?:\x80[\x02-\x05])?(?:\x95.{8})?\x8a\x0a" + _LEGACY.to_bytes(10, "little"), re.DOTALL)
_NEWEST = 10
_OLDER = "Use an older checkpoint."


def is_torch_file(start: bytes) -> bool:
    """Whether a file that begins so is a zip archive or PyTorch's older format."""
    return start[:4] == b"PK\x03\x04" or _LEGACY_START.match(start) is not None


def read(
    file: Any,
    who: str,
    place: Callable[[str], devices.device],
    mapped: bool = False,
    trusted: Sequence[Any] = (),
) -> Any:
    """What `torch.save` wrote.

    Args:
        file: an open binary file, at its beginning, or the bytes.
        who: its name, for messages.
        place: the device for what was saved on the device of that name.
        mapped: lets the tensors' memory be the file's, copied page by page when it is written; checksums are not compared then.
        trusted: classes and functions that the file may name.
    """
    source = Source(file)
    try:
        if bytes(source.view[:2]) == b"PK":
            return _Zip(source, who, place, source.pages() if mapped else None, trusted).load()
        if mapped:
            raise RuntimeError(
                f"load: mmap=True can only be used with files that torch.save wrote as zip archives, and {who} has the format before "
                f"them. Leave mmap out."
            )
        return _Legacy(source, who, place, None, trusted).load()
    finally:
        source.close()


class _Read:
    """A piece of the file that becomes a storage."""

    __slots__ = ("target", "offset", "checksum", "name", "dtype", "done")

    def __init__(
        self, target: Any, offset: int, checksum: int | None, name: str, dtype: dtypes.dtype, done: bool
    ) -> None:
        self.target, self.offset, self.checksum, self.name, self.dtype = target, offset, checksum, name, dtype
        self.done = done


class _Loader:
    """What both formats have in common: storages and the reading of their bytes."""

    swapped = False

    def __init__(
        self,
        source: Source,
        who: str,
        place: Callable[[str], devices.device],
        pages: Any = None,
        trusted: Sequence[Any] = (),
    ) -> None:
        self.source, self.who, self.place, self.pages = source, who, place, pages
        self.trusted = objects.trusted_names(trusted)
        self.size = len(source.view)
        self.pieces: dict[str, tuple[int, int, int | None]] = {}  # offset, length, checksum by the storage's key
        self.reads: dict[str, _Read] = {}
        self.memories: dict[tuple[str, devices.device], Any] = {}
        self.devices: dict[str, devices.device] = {}

    def error(self, problem: str) -> CheckpointError:
        return CheckpointError(f"load: {self.who} {problem}")

    def machine(self, data: Any, position: int = 0, persistent: Callable | None = None, calls: Any = None) -> Machine:
        machine = Machine(data, self.who, position, CONSTANTS, calls or CALLS, BUILDS, persistent)
        machine.trusted = self.trusted
        machine.hashable = (*HASHABLE, dtypes.dtype, devices.device)
        machine.fill = lambda: self.fill(self.reads.values())
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
        if type(kind) is not Global or (name := kind.name.rpartition(".")[2]) not in STORAGES:
            raise self.error(f"is damaged: a storage's type is not known. {_OLDER}")
        if type(key) is not str or type(elements) is not int or elements < 0:
            raise self.error(f"is damaged: storage {str(key)[:40]!r} of {str(elements)[:40]} elements. {_OLDER}")
        return STORAGES[name], key, location, elements, *rest

    def storage(self, dtype: dtypes.dtype, key: str, location: Any, elements: int) -> TypedStorage:
        if key not in self.pieces:
            raise self.error(f"lacks the storage {key[:40]!r}: it is incomplete. {_OLDER}")
        offset, length, checksum = self.pieces[key]
        if elements * dtype.itemsize != length:
            raise self.error(
                f"is damaged: storage {key!r} has {length} bytes, but {elements} elements of {dtype} are said to be in it. {_OLDER}"
            )
        if key not in self.reads:
            in_file = self.pages is not None and length and not self.swapped and offset % dtype.itemsize == 0
            target = None if in_file else arrays.empty((length,), dtypes.uint8)
            if in_file:
                target = numpy.frombuffer(self.pages, numpy.uint8, length, offset)
            self.reads[key] = _Read(target, offset, checksum, f"data/{key}", dtype, bool(in_file))
        read = self.reads[key]
        device = self.device(location)
        if (key, device) not in self.memories:
            if device.type != "cpu":
                self.fill([read])
            self.memories[key, device] = arrays.to_device(read.target, device)
        return TypedStorage(wrap_storage=UntypedStorage._over(self.memories[key, device]), dtype=dtype)

    def device(self, location: Any) -> devices.device:
        if location not in self.devices:
            if type(location) is not str or not LOCATION.fullmatch(location):
                raise self.error(f"is damaged: it has a tensor on {str(location)[:40]!r}. {_OLDER}")
            self.devices[location] = self.place(location)
        return self.devices[location]

    def fill(self, reads: Any) -> None:
        """Reads storages, a few shares at a time, and compares checksums."""
        reads = [read for read in reads if not read.done]
        for read in reads:
            read.done = True
        places = [(read.target, read.offset, read.checksum is not None) for read in reads]
        try:
            read_checksums = checksums.read_all(places, self.source.read_into)
        except EOFError:
            raise self.error(f"became shorter while it was read. {_OLDER}") from None
        for read, checksum in zip(reads, read_checksums):
            if checksum != read.checksum:
                raise self.error(
                    f"is damaged: the bytes of {read.name} have checksum {checksum:08x}, expected {read.checksum:08x}. {_OLDER}"
                )
            width = read.dtype.to_real().itemsize
            if self.swapped and width > 1:
                read.target.view(f"u{width}").byteswap(inplace=True)

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
        machine = self.machine(self.content("data.pkl"), 0, self.named)
        value = machine.read()
        if machine.position != len(machine.data):
            raise self.error(f"is damaged: data.pkl goes on after its end. {_OLDER}")
        return self.finished(value)

    def named(self, saved: Any) -> TypedStorage | UntypedStorage:
        """The storage of a persistent id."""
        storage = self.storage(*self.parts_of(saved, 5))
        return storage.untyped() if saved[1].name.endswith("UntypedStorage") else storage

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
        entries = {info.filename: (self.offset(info), info.file_size, info.CRC if checked else None) for info in infos}
        if len(entries) != len(infos) or sum([length for _, length, _ in entries.values()]) > self.size:
            raise self.error(f"is damaged: entries of the archive overlap. {_OLDER}")
        return entries

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

        self.pickled(note, OUTLINE)  # where the structure ends, and what the storages are
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

    def viewed(self, saved: Any) -> TypedStorage:
        dtype, key, location, elements, view = self.parts_of(saved, 6)
        whole = self.storage(dtype, key, location, elements)
        if view is None:
            return whole
        _, offset, count = view
        if not 0 <= offset <= offset + count <= elements:
            raise self.error(f"is damaged: a view of storage {key!r} lies outside of it. {_OLDER}")
        part = whole._memory[offset * dtype.itemsize : (offset + count) * dtype.itemsize]
        return TypedStorage(wrap_storage=UntypedStorage._over(part), dtype=dtype)
